# SPDX-License-Identifier: Apache-2.0
"""The thread with a loop that each of these tests uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sprocketmq.net.process.engine import Engine


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine("test-engine")
    yield engine
    engine.close()
