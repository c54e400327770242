"""The brokers under the broker contract."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["kfake", "kafka", "devbroker"])
def broker(request: pytest.FixtureRequest) -> object:
    """Each broker of the tests in turn, as `tests.contract.broker_client.Broker`."""
    from tests.contract.broker_client import Broker  # imports the client, which the fast set need not

    server = request.getfixturevalue(request.param)
    return Broker(request.param, server.bootstrap, getattr(server, "control", None))
