"""What a program that uses the service imports: its version and its client."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siltstone.client import Answer, ApiError, Client, ClientError

__all__ = ["Answer", "ApiError", "Client", "ClientError", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loads the client on first use, so that asking for the version stays cheap."""
    if name in __all__:
        from siltstone import client

        return getattr(client, name)
    raise AttributeError(f"module 'siltstone' has no attribute {name!r}")
