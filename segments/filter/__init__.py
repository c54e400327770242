"""Druid's row filters: JSON read into frozen values (``model``, ``parse``) and evaluated on Arrow (``evaluate``)."""
