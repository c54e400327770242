"""Fixtures that open something, all started on first use, and how hypothesis searches."""

import hypothesis

pytest_plugins = ["tests.servers.fixtures"]

# No deadline per example: the machines that run this are shared, and a slow example is not a wrong one.
hypothesis.settings.register_profile("siltstone", deadline=None, print_blob=True)
hypothesis.settings.load_profile("siltstone")
