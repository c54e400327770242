"""Leads: holds the lease, runs one supervisor per spec, keeps the task queue and answers task actions."""
