# SPDX-License-Identifier: Apache-2.0
"""One store directory, two servers: what ours wrote opens in Apache RocketMQ, and the other way round, with its progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sprocketmq as rmq
from interop.peers import APACHE_5, VERSIONS, ApacheCluster, JavaProgram, SprocketServer, poll_until

Server = ApacheCluster | SprocketServer

pytestmark = pytest.mark.usefixtures("java_peers")


def send(server: Server, first_time: bool) -> list[dict[str, Any]]:
    if first_time:
        server.create_topic("handed-over", 4)
    with JavaProgram(
        APACHE_5, "Producer", namesrv=server.namesrv_addr, topic="handed-over", count=8, tags="A"
    ) as producer:
        return producer.read_rest("sent")


def consume(server: Server, count: int) -> list[dict[str, Any]]:
    with JavaProgram(
        APACHE_5, "PushConsumer", namesrv=server.namesrv_addr, topic="handed-over", group="heirs", count=count
    ) as consumer:
        return consumer.read_rest("message")


def pass_on(first: Server, second: Server) -> None:
    """Half is consumed before the handover, and the group's progress goes with the store."""
    with first:
        assert len(send(first, True)) == 8
        assert len(consume(first, 8)) == 8
        with rmq.Admin(namesrv_addr=first.namesrv_addr) as admin:
            # Java commits one-way, and may have ended before that arrives.
            poll_until(lambda: admin.lag("heirs", "handed-over") == 0, "the broker has the group's progress")
        left = {sent["msgId"] for sent in send(first, False)}
    with second:
        more = {sent["msgId"] for sent in send(second, False)}
        deliveries = consume(second, 16)
        assert {delivery["msgId"] for delivery in deliveries} == left | more
        offsets = sorted((delivery["queueId"], delivery["queueOffset"]) for delivery in deliveries)
        assert len(set(offsets)) == 16, "no queue offset was given twice"
        second.kill()  # nobody opens the store any more


@pytest.mark.parametrize("version", VERSIONS)
def test_apache_goes_on_with_our_store(version: str, tmp_path: Path) -> None:
    pass_on(SprocketServer(tmp_path / "store"), ApacheCluster(version, tmp_path / "store"))


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_we_go_on_with_apaches_store(version: str, tmp_path: Path) -> None:
    pass_on(ApacheCluster(version, tmp_path / "store"), SprocketServer(tmp_path / "store"))


@pytest.mark.parametrize("version", VERSIONS)
def test_we_go_on_with_the_store_of_an_apache_that_was_killed(version: str, tmp_path: Path) -> None:
    first = ApacheCluster(version, tmp_path / "store")
    with first:
        acknowledged = {sent["msgId"] for sent in send(first, True)}
        first.kill()
    with SprocketServer(tmp_path / "store") as second:
        assert {delivery["msgId"] for delivery in consume(second, 8)} == acknowledged
