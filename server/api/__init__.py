"""HTTP resources in Druid's paths and JSON shapes; one module per resource, no decisions."""
