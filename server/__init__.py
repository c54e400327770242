"""Processes, wiring, HTTP and the command line: the only place that names concrete classes."""
