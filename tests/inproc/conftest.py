# SPDX-License-Identifier: Apache-2.0
"""What the tests inside one process share: none leaves a client behind."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sprocketmq.client.remoting.instance import ClientInstance

PATIENCE_S = 30.0


@pytest.fixture(scope="module", autouse=True)
def every_client_is_shut_down(every_module_is_loaded: None) -> Iterator[None]:
    """A client that is left running looks for its dead broker during all later tests of the process: it logs there, and its tasks are
    counted there."""
    before = set(ClientInstance._instances)
    yield
    deadline = time.monotonic() + PATIENCE_S  # one that was dropped shuts down on its loop
    while (left := set(ClientInstance._instances) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"clients that no test has shut down: {left}"
