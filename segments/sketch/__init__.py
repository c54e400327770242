"""Sketches as stored bytes: what they are (``shape``), how they come to be (``build``), merge and answer.

The bytes are those of Apache DataSketches, so that Druid and every other library of that project read them.
The only importer of the ``datasketches`` package. Needs no other part of the service.
"""
