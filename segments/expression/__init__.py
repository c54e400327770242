"""Druid's expression language: its grammar (``parser``, ``tree``), and what an expression is worth over rows.

``evaluate`` gives the value for one row and decides; ``columns`` gives a whole column, by Arrow where it can.
"""
