"""How many examples a property test looks at: few in the fast set, twenty times as many nightly."""

from hypothesis import settings

FAST, NIGHTLY = "siltstone", "nightly"
TIMES = 20


def examples(fast: int) -> int:
    """``max_examples`` of a test that takes long: ``fast`` of them, or the many of `--hypothesis-profile nightly`."""
    return fast * TIMES if settings.get_current_profile_name() == NIGHTLY else fast
