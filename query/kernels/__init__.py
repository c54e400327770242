"""Functions that the engine does not have: each gets whole Arrow arrays and gives one back."""
