# SPDX-License-Identifier: Apache-2.0
"""The thread with a loop that each of these tests uses, and a server on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from sprocketmq.net.process.engine import Engine
from sprocketmq.net.server import Server


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine("test-engine")
    yield engine
    engine.close()


def while_serving(engine: Engine, server: Server, scenario: Callable[[Server, str], Awaitable[Any]]) -> Any:
    """What ``scenario`` returns, which is given the address of ``server`` too."""

    async def run() -> Any:
        port = await server.start("127.0.0.1", 0)
        try:
            return await scenario(server, f"127.0.0.1:{port}")
        finally:
            await server.stop()

    return engine.run(run(), timeout_s=60)
