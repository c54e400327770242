"""Reads partitioned streams and decodes their messages into columns."""
