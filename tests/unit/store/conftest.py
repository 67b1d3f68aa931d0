# SPDX-License-Identifier: Apache-2.0
"""The fixture ``store`` runs each test on both stores, and checks the store after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sprocketmq.store import MessageStore

from .stores import open_disk, open_memory, opened, problems


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MessageStore]:
    opened = open_memory() if request.param == "memory" else open_disk(tmp_path / "store")
    yield opened
    assert problems(opened) == []
    opened.close()


@pytest.fixture(autouse=True)
def closed(tmp_path: Path) -> Iterator[None]:
    """What a test has opened is closed before its folder is removed."""
    yield
    while opened:
        opened.pop().close()
