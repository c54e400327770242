"""From a stream to published segments: supervisors, tasks, the row path and the metadata they agree on."""
