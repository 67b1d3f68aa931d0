# SPDX-License-Identifier: Apache-2.0
"""A store goes from Apache to ours and back, through all that can have happened to it: nothing is lost, nothing comes twice.

Apache writes plain, batched, delayed, transactional and keyed messages, and is stopped or killed. Then something happens to the directory.
Our broker opens it, everything is read, found by key, checked and written on; Apache gets it back and its consumers read all of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.peers import APACHE_4, APACHE_5, APACHE_55, ApacheCluster, JavaProgram, SprocketServer, poll_until
from interop.remoting import ask
from interop.send_ledger import bodies_of
from sprocketmq.store import DiskMessageStore, StoreConfig, StoredMessage
from sprocketmq.store.tools.check import StoreSummary, check_directory
from sprocketmq.wire.bodies import ConsumerOffsetSerializeWrapper
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.record import decode_records

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("java_peers")]

# Small files, so that the log has several, and copies are quick.
SIZES: dict[str, Any] = {
    "mappedFileSizeCommitLog": 16_384,
    "mappedFileSizeConsumeQueue": 600,
    "maxHashSlotNum": 500,
    "maxIndexNum": 1_000,
}
SETTINGS: dict[str, Any] = {
    **SIZES,
    "messageDelayLevel": "1s 3s 1s 1s",
    "transactionTimeOut": 6000,
    "flushConsumerOffsetInterval": 500,
}
CONFIG = StoreConfig(
    mapped_file_size_commit_log=16_384, mapped_file_size_consume_queue=600, max_hash_slot_num=500, max_index_num=1_000
)
QUERY_MESSAGE, GET_MAX_OFFSET, VIEW_MESSAGE_BY_ID = 12, 30, 33
PLAIN, BATCHED, DELAYED, TRANSACTIONAL = "exchanged", "exchanged-batches", "exchanged-late", "exchanged-transactions"
Bodies = dict[str, list[str]]
Written = Callable[[str, bool], tuple[Path, Bodies]]


def java_send(namesrv_addr: str, version: str, topic: str, count: int, **options: Any) -> list[dict[str, Any]]:
    with JavaProgram(version, "Producer", namesrv=namesrv_addr, topic=topic, count=count, **options) as producer:
        sent: list[dict[str, Any]] = producer.read_rest("sent")
    return sent


def java_consume(namesrv_addr: str, version: str, topic: str, count: int, group: str) -> list[str]:
    with JavaProgram(version, "PushConsumer", namesrv=namesrv_addr, topic=topic, group=group, count=count) as consumer:
        return sorted(message["body"] for message in consumer.read_rest("message", 90))


def by_key(broker_addr: str, key: str) -> set[tuple[int, int]]:
    """Places of the messages that a query by key finds."""
    ext = {"topic": PLAIN, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(1 << 62)}
    answer = ask(broker_addr, QUERY_MESSAGE, ext)
    assert answer.code == 0, answer.header
    return {
        (message.queue_id, message.queue_offset) for message in decode_records(answer.body) if message.keys == [key]
    }


# -- what happens between Apache and ours ----------------------------------------------------------------------------------------


def nothing(store: Path) -> None:
    pass


def lost_queues(store: Path) -> None:
    shutil.rmtree(store / "consumequeue")


def lost_index(store: Path) -> None:
    shutil.rmtree(store / "index")


def half_tail(store: Path) -> None:
    """The last record's first half once more, behind it: a write that a power cut has torn."""
    with (store / "commitlog" / last_file(store)).open("r+b") as log:
        raw = log.read()
        end = len(raw.rstrip(b"\0"))
        log.seek(end)
        log.write(raw[end - 200 : end - 100][: max(0, len(raw) - end - 8)])
    (store / "abort").touch()


def zero_length_last_file(store: Path) -> None:
    following = int(last_file(store)) + SIZES["mappedFileSizeCommitLog"]
    (store / "commitlog" / f"{following:020d}").touch()
    (store / "abort").touch()


def deleted_head(store: Path) -> None:
    """As Apache leaves it: the log's first file is gone, queues and index still have what pointed there."""
    first = sorted((store / "commitlog").iterdir())[0]
    first.unlink()
    (store / "lock").write_bytes(b"lock")  # what a Java broker leaves there


def last_file(store: Path) -> str:
    written = [path.name for path in (store / "commitlog").iterdir() if path.read_bytes().strip(b"\0")]
    return max(written)


EVENTS = [nothing, lost_queues, lost_index, half_tail, zero_length_last_file, deleted_head]
SCENARIOS = [
    *((version, killed, event) for version in (APACHE_4, APACHE_5) for killed in (False, True) for event in EVENTS[:1]),
    *((version, False, event) for version in (APACHE_4, APACHE_5) for event in EVENTS[1:]),
    (APACHE_55, False, nothing),
]


@pytest.fixture(scope="module")
def written(java_peers: None, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Stores written by Apache, by (version, killed), with the bodies by topic that have to be in them; made once."""
    made: dict[tuple[str, bool], tuple[Path, Bodies]] = {}

    def get(version: str, killed: bool) -> tuple[Path, Bodies]:
        if (version, killed) not in made:
            made[version, killed] = write(version, killed, tmp_path_factory.mktemp("apache") / "store")
        return made[version, killed]

    return get


def write(version: str, killed: bool, store: Path) -> tuple[Path, Bodies]:
    cluster = ApacheCluster(version, store, **SETTINGS)
    with cluster:
        address = cluster.namesrv_addr
        for topic in (PLAIN, BATCHED, DELAYED, TRANSACTIONAL):
            cluster.create_topic(topic, 4)
        java_send(address, version, PLAIN, 60, tags="A,B", body_bytes=700, keys=6)
        java_send(address, version, BATCHED, 20, mode="batch", batch_size=10)
        java_send(address, version, DELAYED, 3, delay_level=2)
        java_send(address, version, TRANSACTIONAL, 4, mode="transaction")
        assert len(java_consume(address, version, PLAIN, 60, "heirs")) == 60
        await_progress(store, 60)
        if killed:
            cluster.kill()
    return store, {
        PLAIN: [f"number {number}" for number in range(60)],
        BATCHED: [f"number {number}" for number in range(20)],
        DELAYED: [f"number {number}" for number in range(3)],
    }


def progress(store: Path) -> int:
    """Messages that group heirs has consumed, as consumerOffset.json has it."""
    try:
        raw = (store / "config/consumerOffset.json").read_bytes()
    except FileNotFoundError:
        return 0
    return sum(ConsumerOffsetSerializeWrapper.decode(raw).offset_table.get(f"{PLAIN}@heirs", {}).values())


def await_progress(store: Path, count: int) -> None:
    """Clients commit one-way: a Java client that has ended says nothing of whether the broker has its progress yet."""
    poll_until(lambda: progress(store) >= count, f"heirs has consumed {count} messages", pause_s=0.2)


def starts(body: str) -> str:
    """``number N`` of a body that may be padded."""
    return " ".join(body.split()[:2]).rstrip(".x")


@pytest.mark.parametrize(
    ("version", "killed", "event"),
    SCENARIOS,
    ids=[f"{version}-{'killed' if killed else 'clean'}-{event.__name__}" for version, killed, event in SCENARIOS],
)
def test_a_store_moves_to_apache_and_back(version, killed, event, written, tmp_path):
    original, bodies = written(version, killed)
    store = tmp_path / "store"
    shutil.copytree(original, store)
    event(store)
    head_is_lost = event is deleted_head

    ours = SprocketServer(store, **SETTINGS)
    with ours:
        address = ours.namesrv_addr
        poll_until(lambda: len(bodies_of(address, DELAYED)) >= 3, "what was delayed arrives", pause_s=0.5)
        for topic, expected in bodies.items():
            found = [starts(body) for body in bodies_of(address, topic)]
            assert set(found) <= set(expected)
            if (
                topic == DELAYED and killed
            ):  # delivered before the kill, and again: the progress of delay levels is written each 10 s
                found = sorted(set(found))
            if not head_is_lost:
                assert sorted(found) == sorted(expected), topic
        hits = by_key(ours.broker_addr, "key-3")
        assert len(hits) == 10 or (head_is_lost and hits)
        java_send(address, version, PLAIN, 12, tags="A", body_bytes=100, keys=6)
        assert len(java_consume(address, version, PLAIN, 12, "heirs")) == 12, "the group goes on where it was"
        await_progress(store, 72)
        kept = sorted(starts(body) for body in bodies_of(address, PLAIN))
        batches = sorted(starts(body) for body in bodies_of(address, BATCHED))
    summary = StoreSummary()
    assert [str(problem) for problem in check_directory(store, CONFIG, summary) if not problem.note] == []
    assert summary.key_count > 70

    with ApacheCluster(version, store, **SETTINGS) as theirs:
        address = theirs.namesrv_addr
        assert sorted(starts(body) for body in java_consume(address, version, PLAIN, len(kept), "newcomers")) == kept
        assert (
            sorted(starts(body) for body in java_consume(address, version, BATCHED, len(batches), "newcomers"))
            == batches
        )
        more = {sent["msgId"] for sent in java_send(address, version, PLAIN, 4)}
        assert len(more) == 4
        assert len(java_consume(address, version, PLAIN, 4, "heirs")) == 4, "and nothing that was consumed comes again"
        assert hits < by_key(theirs.broker_addr, "key-3"), "what we indexed, Apache finds"
        theirs.kill()  # nobody opens the store any more


def test_records_of_version_2_go_to_apache_5_and_back(tmp_path):
    """Topics beyond 127 characters, which 4.9 cannot read. No client may make one, but 5.x has them for queues of its own."""
    topic, path = "long-" + "x" * 160, tmp_path / "store"
    store = DiskMessageStore(path, CONFIG)
    store.load()
    properties = b"UNIQ_KEY\x01U%d\x02TAGS\x01A\x02"
    offsets = [
        store.append(
            StoredMessage(topic, 0, b"body %d" % number, properties % number, tags_code=tags_code("A")), number + 1
        ).physical_offset
        for number in range(3)
    ]
    records = [bytes(record) for offset in offsets if (record := store.record_at(offset))]
    assert all(record[4:8] == b"\xda\xa3\x20\xab" for record in records)
    store.close()
    shutil.rmtree(path / "consumequeue")
    (path / "abort").touch()
    with ApacheCluster(APACHE_5, path, **SETTINGS) as theirs:
        for offset, record in zip(offsets, records, strict=True):
            assert ask(theirs.broker_addr, VIEW_MESSAGE_BY_ID, {"offset": str(offset)}).body == record
        place = {"topic": topic, "queueId": "0"}
        assert ask(theirs.broker_addr, GET_MAX_OFFSET, place).header["extFields"]["offset"] == "3"
    assert [str(problem) for problem in check_directory(path, CONFIG) if not problem.note] == []
    store = DiskMessageStore(path, CONFIG)
    store.load()
    assert [unit.physical_offset for unit in store.units(topic, 0, 0)] == offsets
    assert [unit.tags_code for unit in store.units(topic, 0, 0)] == [tags_code("A")] * 3
    store.close()
