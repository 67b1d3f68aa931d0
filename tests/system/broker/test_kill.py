# SPDX-License-Identifier: Apache-2.0
"""`kill -9` on the broker in the middle of its work: what it acknowledged is there after the restart, once, at its place."""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest

import sprocketmq as rmq
from interop.apache_cluster import free_ports
from interop.child import poll_until
from interop.send_ledger import BROKER_CONF
from interop.sprocket_server import SprocketServer
from sprocketmq.wire.bodies import ConsumerOffsetSerializeWrapper

pytestmark = pytest.mark.timeout(600)


def ports() -> tuple[int, int]:
    """Two fixed ports, so that ids and clients outlive a restart."""
    first = free_ports(1)
    return first, first + 1


def test_a_consumer_that_lives_through_kills_misses_nothing_and_its_progress_neither_runs_ahead_nor_is_lost(tmp_path):
    server = SprocketServer(tmp_path / "store", ports=ports(), flushConsumerOffsetInterval=200, **BROKER_CONF)
    seen: dict[rmq.MessageQueue, set[int]] = defaultdict(set)
    bodies: set[bytes] = set()
    lock = threading.Lock()

    def consumed_without_gap() -> dict[int, int]:
        """By queue id, the first offset that the listener has not finished."""
        with lock:
            return {
                queue.queue_id: next(offset for offset in range(len(done) + 1) if offset not in done)
                for queue, done in seen.items()
            }

    server.start(60)
    server.create_topic("lived", 4)
    consumer = rmq.PushConsumer(
        "survivors",
        namesrv_addr=server.namesrv_addr,
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        persist_consumer_offset_interval_ms=200,
        heartbeat_broker_interval_ms=1_000,
    )
    consumer.subscribe("lived")

    @consumer.on_message
    def handle(message: rmq.MessageExt) -> None:
        with lock:
            seen[message.message_queue].add(message.queue_offset)
            bodies.add(message.body)

    sent: set[bytes] = set()
    try:
        with consumer:
            for turn in range(4):
                with rmq.Producer("ops", namesrv_addr=server.namesrv_addr, send_msg_timeout_ms=60_000) as producer:
                    for number in range(100):
                        body = b"%d-%d" % (turn, number)
                        producer.send(rmq.Message("lived", body))
                        sent.add(body)
                # Progress of this turn must have reached the disk, else its survival is not tested.
                poll_until(
                    partial(has_flushed, server.store_dir, turn * 25 + 5), "the group's progress is in its file", 90
                )
                server.kill()
                before = flushed_progress(server.store_dir)
                server.start(60)
                with rmq.Admin(namesrv_addr=server.namesrv_addr) as admin:
                    now = {queue.queue_id: admin.consumer_offset("survivors", queue) for queue in admin.queues("lived")}
                done = consumed_without_gap()
                for queue_id, offset in now.items():
                    assert offset is not None
                    assert before[queue_id] <= offset <= done[queue_id], f"queue {queue_id} after kill {turn + 1}"
            poll_until(lambda: sent <= bodies, "every message is consumed")
    finally:
        server.stop()


def has_flushed(store_dir: Path, least: int) -> bool:
    progress = flushed_progress(store_dir)
    return len(progress) == 4 and min(progress.values()) >= least


def flushed_progress(store_dir: Path) -> dict[int, int]:
    """The group's offsets by queue id, as consumerOffset.json has them."""
    try:
        raw = (store_dir / "config/consumerOffset.json").read_bytes()
    except FileNotFoundError:
        return {}
    return ConsumerOffsetSerializeWrapper.decode(raw).offset_table.get("lived@survivors", {})
