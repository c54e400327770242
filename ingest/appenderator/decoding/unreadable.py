"""Why a message, or one document of it, cannot be read."""


class Unreadable(ValueError):
    """The message, or one document of it, is not of its format; the text says where and why."""
