# SPDX-License-Identifier: Apache-2.0
"""Our broker is killed, Apache's goes on with the store and is killed, ours goes on: each of them finds every message by its key."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import sprocketmq as rmq
from interop.peers import VERSIONS, ApacheCluster, SprocketServer, poll_until
from interop.remoting import ask
from sprocketmq.store import StoreConfig
from sprocketmq.store.tools.check import check_directory
from sprocketmq.wire.records.record import decode_records

pytestmark = pytest.mark.usefixtures("java_peers")

TOPIC, KEYS, QUERY_MESSAGE = "indexed", 8, 12
# A log of many files, so that Apache's recovery does not begin at the first.
SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 4_096,
    "mappedFileSizeConsumeQueue": 6_000,
    "maxHashSlotNum": 50,
    "maxIndexNum": 1_000,
}
CONFIG = StoreConfig(
    mapped_file_size_commit_log=4_096, mapped_file_size_consume_queue=6_000, max_hash_slot_num=50, max_index_num=1_000
)


class Sent:
    """Bodies by key, of all that was acknowledged."""

    def __init__(self) -> None:
        self.bodies: dict[str, set[bytes]] = {f"key-{number}": set() for number in range(KEYS)}
        self.count = 0

    def send(self, server: ApacheCluster | SprocketServer, count: int) -> None:
        with rmq.Producer("indexers", namesrv_addr=server.namesrv_addr) as producer:
            for _ in range(count):
                self.send_one(producer)

    def send_one(self, producer: rmq.Producer) -> None:
        key, body = f"key-{self.count % KEYS}", b"number %d" % self.count
        assert producer.send(rmq.Message(TOPIC, body, keys=[key])).status == rmq.SendStatus.SEND_OK
        self.bodies[key].add(body)
        self.count += 1

    def are_found(self, server: ApacheCluster | SprocketServer) -> None:
        for key, bodies in self.bodies.items():
            ext = {"topic": TOPIC, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(1 << 62)}

            def found(ext: dict[str, str] = ext) -> set[bytes]:
                answer = ask(server.broker_addr, QUERY_MESSAGE, ext)
                return {bytes(message.body) for message in decode_records(answer.body)} if answer.code == 0 else set()

            poll_until(lambda found=found, bodies=bodies: found() == bodies, f"{key} is found", 20, 0.2)  # type: ignore[misc]


def physic_msg_timestamp(store: Path) -> int:
    (time_ms,) = struct.unpack_from(">q", (store / "checkpoint").read_bytes())
    return int(time_ms)


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_every_key_is_found_when_the_two_brokers_take_turns_being_killed(version, tmp_path):
    store, sent = tmp_path / "store", Sent()
    ours, theirs = SprocketServer(store, **SETTINGS), ApacheCluster(version, store, **SETTINGS)
    with ours:
        ours.create_topic(TOPIC, 1)
        sent.send(ours, 80)
    with SprocketServer(store, **SETTINGS) as ours:
        began_ms = physic_msg_timestamp(store)
        sent.send(ours, 40)
        with rmq.Producer("indexers", namesrv_addr=ours.namesrv_addr) as producer:

            def later() -> bool:
                sent.send_one(producer)
                return physic_msg_timestamp(store) > began_ms + 6_000

            poll_until(later, "Apache may begin behind what the index had on the disk", pause_s=0.5)
        sent.are_found(ours)
        ours.kill()
    with theirs:
        sent.are_found(theirs)
        sent.send(theirs, 40)
        sent.are_found(theirs)
        theirs.kill()
    with SprocketServer(store, **SETTINGS) as ours:
        sent.are_found(ours)
        sent.send(ours, 20)
        sent.are_found(ours)
        ours.kill()
    with ApacheCluster(version, store, **SETTINGS) as theirs:
        sent.are_found(theirs)
    assert [str(problem) for problem in check_directory(store, CONFIG) if not problem.note] == []
