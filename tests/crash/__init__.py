"""kill -9 at every write, rename and fsync of a task's life, down to those of the C libraries it uses."""
