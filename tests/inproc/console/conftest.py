# SPDX-License-Identifier: Apache-2.0
"""One server and one console for a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from console_server import RunningConsole
from sprocketmq.console.settings import compiled_masks
from sprocketmq.testing import EmbeddedRocketMQ


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system", messageDelayLevel="1s 5s") as mq:
        yield mq


@pytest.fixture(scope="module")
def audit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.jsonl"


@pytest.fixture(scope="module")
def console(server: EmbeddedRocketMQ, audit_file: Path) -> Iterator[RunningConsole]:
    """One that may change things, and hides card numbers."""
    masks = compiled_masks(["[0-9]{16}"])
    with RunningConsole(server.namesrv_addr, allow_changes=True, masks=masks, audit_file=audit_file) as running:
        yield running
