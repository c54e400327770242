"""The audit behind ``siltstone verify``: proves a table exact from its ledger, its segment rows and its files."""
