"""Chaos: real processes and servers, broken at random by seed; every answer proves that nothing is lost or doubled."""
