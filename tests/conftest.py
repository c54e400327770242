"""Fixtures that open something; all of them start on first use."""

pytest_plugins = ["tests.servers.fixtures"]
