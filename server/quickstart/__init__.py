"""The quickstart: a broker, a producer of real edits, the service and a table, in one command."""
