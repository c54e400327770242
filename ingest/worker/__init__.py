"""The middle manager's side: starts, watches and adopts the processes that tasks run in."""
