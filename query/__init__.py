"""From a question to rows: the catalogue, the live rows of tasks and the query engine."""
