# SPDX-License-Identifier: Apache-2.0
"""The move to an Apache master while messages flow (docs/guides/grow-out.md), step by step as the guide says."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import sprocketmq as rmq
from interop.apache_cluster import as_slave
from interop.peers import VERSIONS, ApacheCluster, SprocketServer, poll_until
from interop.remoting import ask
from sprocketmq.store.tools.check import check_directory
from sprocketmq.wire.bodies import HARuntimeInfo
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.text import fastjson

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("java_peers")]

TOPIC = "orders"
FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
LEVELS = {"messageDelayLevel": "1s 2s 3s"}
PATIENCE_S = 180.0  # two JVMs, a broker and the load share what the machine has
# Clients that look for a new master each half second instead of each 30 s: the test need not wait as long as people may.
CLIENT: dict[str, Any] = {"poll_name_server_interval_ms": 500, "persist_consumer_offset_interval_ms": 200}


class Load:
    """Producers that number their messages and try each until it is acknowledged, and members of one group that read on and on."""

    def __init__(self, namesrv_addr: str) -> None:
        self.namesrv_addr = namesrv_addr
        self.acknowledged: list[int] = []
        self.consumed: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()
        self.pauses_s: list[float] = [0.0]
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._number = iter(range(10**9))
        self._threads = [threading.Thread(target=self._produce, daemon=True) for _ in range(3)]
        self._consumers: list[rmq.PushConsumer] = []

    def __enter__(self) -> Load:
        self._producer = rmq.Producer("load", namesrv_addr=self.namesrv_addr, send_msg_timeout_ms=2_000, **CLIENT)
        self._producer.start()
        for n in range(2):
            consumer = rmq.PushConsumer(
                "always-on",
                namesrv_addr=self.namesrv_addr,
                consume_from_where=FIRST,
                instance_name=f"member-{n}",
                pull_time_delay_when_exception_ms=200,
                **CLIENT,
            )
            consumer.subscribe(TOPIC)
            consumer.on_message(self._consume)
            consumer.start()
            self._consumers.append(consumer)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop_producing()
        for consumer in self._consumers:
            consumer.shutdown()
        self._producer.shutdown()

    def stop_producing(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _produce(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                number = next(self._number)
            began = time.monotonic()
            while not self._send(number):
                time.sleep(0.1)
            self.pauses_s.append(time.monotonic() - began)
            self.acknowledged.append(number)
            time.sleep(0.005)

    def _send(self, number: int) -> bool:
        message = rmq.Message(
            TOPIC, str(number).encode(), keys=str(number), delay_level=number % 3 if number % 20 == 0 else 0
        )
        try:
            return self._producer.send(message).status is rmq.SendStatus.SEND_OK
        except rmq.RocketMQError as error:
            self.refused[type(error).__name__] += 1
            return False

    def _consume(self, message: rmq.MessageExt) -> None:
        with self._lock:
            self.consumed[int(message.body)] += 1

    def lost(self) -> list[int]:
        with self._lock:
            return [number for number in self.acknowledged if not self.consumed[number]]


class Reader:
    """A group that reads a part, leaves, and comes back later."""

    def __init__(self, namesrv_addr: str) -> None:
        self.consumer = rmq.PushConsumer("now-and-then", namesrv_addr=namesrv_addr, consume_from_where=FIRST, **CLIENT)
        self.read: list[tuple[int, int]] = []
        self.consumer.subscribe(TOPIC)
        self.consumer.on_message(lambda message: self.read.append((message.queue_id, message.queue_offset)))

    def __enter__(self) -> Reader:
        self.consumer.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.consumer.shutdown()


def log_of(store_dir: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store_dir / "commitlog").iterdir()))


def in_sync_slaves(broker_addr: str) -> int:
    return HARuntimeInfo.decode(ask(broker_addr, RequestCode.GET_BROKER_HA_STATUS).body).in_sync_slave_nums


def config_of(store_dir: Path, name: str, table: str) -> dict[str, Any]:
    # Keys of inner tables are numbers without quotes; what is compared is text either way.
    found = fastjson.loads((store_dir / "config" / name).read_bytes())[table]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_move_to_apache_under_load_loses_nothing_and_groups_go_on_where_they_were(version, tmp_path):
    small = {"mappedFileSizeCommitLog": 4 << 20, **LEVELS}
    server = SprocketServer(tmp_path / "ours", **small)
    slave = as_slave(version, "", **small)
    try:
        server.start()
        server.create_topic(TOPIC, 4)
        with Load(server.namesrv_addr) as load:
            with Reader(server.namesrv_addr) as early:
                poll_until(lambda: len(early.read) > 100, "the group has read a part")
            slave.namesrv_addr = server.namesrv_addr
            slave.start()

            command = [
                SprocketServer.command() or "",
                "handover",
                "--broker",
                server.broker_addr,
                "--timeout",
                f"{PATIENCE_S:.0f}",
            ]
            handover = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
            assert handover.returncode == 0, handover.stderr
            end = int(handover.stdout.split("log=")[1].split()[0])

            # The slave's copy, before it takes in anything of its own.
            slave.stop_broker()
            assert log_of(server.store_dir)[:end] == log_of(slave.store_dir)[:end]
            for name, table in (
                ("topics.json", "topicConfigTable"),
                ("subscriptionGroup.json", "subscriptionGroupTable"),
            ):
                assert config_of(server.store_dir, name, table).keys() <= config_of(slave.store_dir, name, table).keys()
            resting = config_of(server.store_dir, "consumerOffset.json", "offsetTable")[f"{TOPIC}@now-and-then"]
            assert config_of(slave.store_dir, "consumerOffset.json", "offsetTable")[f"{TOPIC}@now-and-then"] == resting
            # A store that was handed over stays where it is.
            again = subprocess.run(
                [SprocketServer.command() or "", "serve", "--store", str(server.store_dir), "--namesrv-port", "0", "--broker-port", "0"],
                capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            assert (again.returncode, "handed over" in again.stderr) == (2, True), again.stderr

            before = len(load.acknowledged)
            slave.become_master()
            poll_until(lambda: len(load.acknowledged) > before + 200, "producers go on at the new master")
            with Reader(server.namesrv_addr) as late:
                poll_until(lambda: len(late.read) > 100, "the group reads on")
            load.stop_producing()
            poll_until(lambda: not load.lost(), "everything acknowledged is consumed")

        again_read = set(early.read) & set(late.read)
        twice = sum(count - 1 for count in load.consumed.values())
        print(
            f"{version}: {len(load.acknowledged)} acknowledged, 0 lost, {twice} consumed twice by the group that stayed, "
            f"{len(again_read)} by the one that came back; longest wait for an acknowledgement {max(load.pauses_s):.1f} s; "
            f"refused meanwhile: {dict(load.refused)}"
        )
        assert len(load.acknowledged) == len(set(load.acknowledged))
        # At least once allows a few; a group that had lost its progress would read everything again.
        assert len(again_read) < len(early.read) // 2
        assert [str(problem) for problem in check_directory(server.store_dir)] == []
    finally:
        slave.stop()
        server.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_killed_sync_master_is_read_from_its_slave_which_has_all_that_was_acknowledged(version, tmp_path):
    """Our broker registers with an Apache name server, too: it is the one that is left."""
    with ExitStack() as running:
        names = ApacheCluster(version)
        running.callback(names.stop)
        names.start_namesrv()
        server = SprocketServer(tmp_path / "ours", brokerRole="SYNC_MASTER", namesrvAddr=names.namesrv_addr)
        running.enter_context(server)
        server.create_topic(TOPIC, 4)
        slave = as_slave(version, names.namesrv_addr, slaveReadEnable=True)
        running.enter_context(slave)
        poll_until(lambda: in_sync_slaves(server.broker_addr) == 1, "the slave copies")
        # Longer than the three seconds that the broker waits for its slave.
        with rmq.Producer("syncer", namesrv_addr=names.namesrv_addr, send_msg_timeout_ms=20_000, **CLIENT) as producer:
            sent = [f"acknowledged {number}" for number in range(300)]
            answers = [producer.send(rmq.Message(TOPIC, body.encode())).status for body in sent]
            assert set(answers) == {rmq.SendStatus.SEND_OK}
            metadata = slave.store_dir / "config" / "topics.json"
            poll_until(lambda: metadata.exists() and TOPIC in metadata.read_text(), "the slave copies the topics")
            server.kill()
        consumer = rmq.PushConsumer("heirs", namesrv_addr=names.namesrv_addr, consume_from_where=FIRST, **CLIENT)
        consumer.subscribe(TOPIC)
        read: list[str] = []
        consumer.on_message(lambda message: read.append(message.body.decode()))
        with consumer:
            poll_until(lambda: set(sent) <= set(read), "everything acknowledged is read from the slave")
