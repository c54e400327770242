"""Makes ``python -m server`` the same as the ``siltstone`` command."""

from server.cli import main

main()
