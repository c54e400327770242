"""Decides which task reads which partitions and when a sequence of records ends."""
