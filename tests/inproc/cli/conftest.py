# SPDX-License-Identifier: Apache-2.0
"""One server for a module of tests of commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli_run import CommandLine
from sprocketmq.testing import EmbeddedRocketMQ


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system", messageDelayLevel="1s 5s 10s 1m") as mq:
        yield mq


@pytest.fixture(scope="module")
def line(server: EmbeddedRocketMQ, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    contexts = tmp_path_factory.mktemp("contexts") / "contexts.json"
    return CommandLine(server.namesrv_addr, {"SPROCKETMQ_CONTEXTS": str(contexts)})
