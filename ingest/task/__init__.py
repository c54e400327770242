"""One replica's work: reading, checkpointing, publishing and handing off its sequences."""
