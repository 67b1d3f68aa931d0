# SPDX-License-Identifier: Apache-2.0
"""What survives: a clean restart, a kill without any goodbye, and what SYNC_FLUSH waits for."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest

from golden.pipeline.scenes import send as frame
from inproc.broker.written_to import WrittenTo
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import SubscriptionGroupConfig
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.text import fastjson


def commit(client, offset: int) -> None:
    client.pull("g", "flights")  # makes the group
    client.commit("g", "flights", 0, offset)


def config(cluster, name: str):
    return fastjson.loads((Path(cluster.store_dir) / "config" / name).read_bytes())


def test_messages_topics_groups_and_offsets_survive_a_restart(disk_cluster):
    client = disk_cluster.client()
    assert client.create_topic("flights", 3, write_queue_nums=2).code == 0
    group = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
    client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
    for n in range(100):
        client.send("flights", b"%d" % n)
    commit(client, 42)
    disk_cluster.restart_broker()
    client = disk_cluster.client()
    assert client.bodies() == [b"%d" % n for n in range(100)]
    assert client.committed("g", "flights") == "42"
    topic = disk_cluster.broker.topics.get("flights")
    assert (topic.read_queue_nums, topic.write_queue_nums) == (3, 2)
    assert disk_cluster.broker.groups.table["g"].retry_max_times == 3
    assert client.send("flights", b"next").ext_fields["queueOffset"] == "100"


def test_a_message_that_fell_due_while_the_broker_was_down_comes_at_its_start(disk_cluster):
    disk_cluster.client().send("flights", b"due", delay_level=2)
    disk_cluster.broker.stop()
    disk_cluster.clock.advance(60_000)
    disk_cluster.start_again(disk_cluster.broker.port)
    disk_cluster.clock.advance(0)
    assert [message.body for message in disk_cluster.client().messages("flights")] == [b"due"]


def test_offsets_are_written_each_five_seconds_and_only_when_something_changed(disk_cluster):
    client = disk_cluster.client()
    client.send("flights")
    commit(client, 1)
    path = Path(disk_cluster.store_dir) / "config" / "consumerOffset.json"
    assert not path.exists()
    disk_cluster.clock.advance(5_000)
    disk_cluster.eventually(path.exists)  # a thread writes it, so that no request waits for the disk
    assert config(disk_cluster, "consumerOffset.json")["offsetTable"] == {"flights@g": {0: 1}}
    written = path.stat().st_mtime_ns
    disk_cluster.clock.advance(60_000)
    assert path.stat().st_mtime_ns == written
    client.send("flights")
    commit(client, 2)
    disk_cluster.clock.advance(5_000)
    disk_cluster.eventually(lambda: path.exists() and path.stat().st_mtime_ns != written)
    assert config(disk_cluster, "consumerOffset.json")["offsetTable"] == {"flights@g": {0: 2}}


def test_delay_progress_is_not_written_before_the_copies_it_covers_are_on_the_disk(disk_cluster, monkeypatch):
    store, asked = disk_cluster.broker.store, []
    real = store.when_durable

    def hold(end: int) -> concurrent.futures.Future[None]:
        held: concurrent.futures.Future[None] = concurrent.futures.Future()
        asked.append((end, held))
        return held

    monkeypatch.setattr(store, "when_durable", hold)
    monkeypatch.setattr(type(store), "flushed_offset", property(lambda self: 0))
    disk_cluster.client().send("flights", b"x", delay_level=1)
    disk_cluster.clock.advance(1_000)
    disk_cluster.client().send("flights", b"y", delay_level=1)
    disk_cluster.clock.advance(9_000)
    path = Path(disk_cluster.store_dir) / "config" / "delayOffset.json"
    disk_cluster.eventually(lambda: asked)
    assert not path.exists()
    assert asked[0][0] == disk_cluster.on_loop(lambda: store.max_physical_offset)
    monkeypatch.setattr(store, "when_durable", real)
    for _, held in asked:
        held.set_result(None)
    disk_cluster.eventually(path.exists)


def test_a_deleted_topic_that_held_the_newest_record_stays_deleted_after_a_kill(disk_cluster, tmp_path):
    client = disk_cluster.client()
    client.send("flights", b"newest")
    commit(client, 1)
    assert client.delete_topic("flights").code == 0
    disk_cluster.kill()
    client = disk_cluster.client()
    assert disk_cluster.broker.topics.get("flights") is None
    assert disk_cluster.broker.store.max_offset("flights", 0) == 0
    assert client.committed("g", "flights") is None
    assert client.send("flights", b"second life").ext_fields["queueOffset"] == "0"
    (tmp_path / "second").mkdir()
    disk_cluster.kill()
    assert [message.body for message in disk_cluster.client().messages("flights")] == [b"second life"]


@pytest.mark.parametrize("bodies", [[], [b"second"], [b"second"] * 7])
def test_a_recreated_topic_has_none_of_its_deleted_messages_after_a_kill(disk_cluster, tmp_path, bodies):
    client = disk_cluster.client()
    for _ in range(5):
        client.send("flights", b"first")
    assert delete_topic(client).code == 0
    assert client.create_topic("flights", 1).code == 0
    for body in bodies:
        client.send("flights", body)
    disk_cluster.kill()
    client = disk_cluster.client()
    assert client.bodies() == bodies
    assert client.send("flights", b"next").ext_fields["queueOffset"] == str(len(bodies))


def test_a_topic_whose_configuration_was_lost_is_adopted_from_its_queues(disk_cluster, tmp_path):
    disk_cluster.client().send("flights", b"x", queue_id=2)
    disk_cluster.engine.run(disk_cluster.broker.config_store.saved())  # or the file is written again behind our back
    for name in ("config/topics.json", "config/topics.json.bak", "tables"):
        (Path(disk_cluster.store_dir) / name).unlink(missing_ok=True)
    disk_cluster.kill()
    assert disk_cluster.broker.topics.get("flights").read_queue_nums == 3
    assert [message.body for message in disk_cluster.client().messages("flights", 2)] == [b"x"]


# -- SYNC_FLUSH ------------------------------------------------------------------------------------------------------------------

SYNC = pytest.mark.parametrize("disk_cluster", [{"flush_disk_type": "SYNC_FLUSH"}], indirect=True)


class HeldFlush:
    """A store whose disk takes its time: ``when_durable`` waits until the test says so."""

    def __init__(self, cluster) -> None:
        self.asked: list[tuple[int, concurrent.futures.Future]] = []
        cluster.broker.store.when_durable = self.when_durable

    def when_durable(self, physical_offset: int) -> concurrent.futures.Future:
        future: concurrent.futures.Future = concurrent.futures.Future()
        self.asked.append((physical_offset, future))
        return future

    def finish(self) -> None:
        for _, future in self.asked:
            if not future.done():
                future.set_result(None)


@SYNC
def test_answers_that_one_flush_made_durable_leave_in_one_write(disk_cluster, monkeypatch):
    flush = HeldFlush(disk_cluster)
    client = disk_cluster.client()
    first = send_later(client, b"first")
    disk_cluster.eventually(lambda: len(flush.asked) == 1)
    others = [send_later(client, b"%d" % number) for number in range(20)]
    disk_cluster.eventually(lambda: len(disk_cluster.broker.durable_answers) == 21)
    written = []
    write = Connection._write
    monkeypatch.setattr(
        Connection, "_write", lambda self, chunks: (written.append(len(chunks)), write(self, chunks))[1]
    )
    flush.asked[0][1].set_result(None)
    assert first.result(10).code == 0
    disk_cluster.eventually(lambda: len(flush.asked) == 2)
    flush.asked[1][1].set_result(None)
    offsets = [other.result(10).ext_fields["queueOffset"] for other in others]
    assert offsets == [str(offset) for offset in range(1, 21)]
    assert written == [1, 20]


def send_later(client, body: bytes, properties: str = "") -> concurrent.futures.Future:
    from sprocketmq.wire.headers import SendMessageRequestHeaderV2

    header = SendMessageRequestHeaderV2("pg", "flights", "TBW102", 4, 0, 0, 1, 0, properties)
    return client.begin(RequestCode.SEND_MESSAGE_V2, header, body)


@SYNC
def test_answers_that_wait_for_the_disk_hold_no_body(disk_cluster):
    flush = HeldFlush(disk_cluster)
    held = disk_cluster.broker.durable_answers
    waiting = [send_later(disk_cluster.client(), bytes(100_000)) for _ in range(3)]
    disk_cluster.eventually(lambda: len(held) == 3)
    assert [one.body for waits in held._waiting for one in waits if isinstance(one, Command)] == [b""] * 3
    while not all(one.done() for one in waiting):
        flush.finish()


@SYNC
def test_a_message_that_does_not_wait_is_answered_at_once(disk_cluster):
    flush = HeldFlush(disk_cluster)
    assert send_later(disk_cluster.client(), b"x", "WAIT\x01false\x02").result(10).code == 0
    assert flush.asked == []


@pytest.mark.parametrize(
    "disk_cluster", [{"flush_disk_type": "SYNC_FLUSH", "sync_flush_timeout_ms": 50}], indirect=True
)
def test_a_disk_that_takes_too_long_is_reported_as_such(disk_cluster):
    HeldFlush(disk_cluster)
    assert send_later(disk_cluster.client(), b"x").result(10).code == ResponseCode.FLUSH_DISK_TIMEOUT


@SYNC
def test_a_one_way_send_waits_for_the_disk_and_is_not_answered(disk_cluster):
    flush, peer = HeldFlush(disk_cluster), WrittenTo()
    disk_cluster.client().send("plain", b"the first makes the topic", oneway=True)
    disk_cluster.eventually(lambda: len(flush.asked) == 1)
    flush.asked[0][1].set_result(None)

    def read() -> None:
        connection = disk_cluster.broker.ports.new_server()._new_connection()
        connection.connection_made(peer)
        connection.data_received(frame(flag=2) + frame() + frame(flag=2))

    disk_cluster.on_loop(read)
    disk_cluster.eventually(lambda: len(disk_cluster.broker.durable_answers) == 3)
    disk_cluster.eventually(lambda: flush.finish() or not len(disk_cluster.broker.durable_answers))
    assert [answer.code for answer in peer.answers()] == [0]


@SYNC
def test_a_stop_flushes_and_answers_sends_that_wait_for_the_disk(disk_cluster):
    flush = HeldFlush(disk_cluster)
    waiting = send_later(disk_cluster.client(), b"x")
    disk_cluster.eventually(lambda: len(flush.asked) == 1)
    disk_cluster.broker.stop()
    assert waiting.result(10).code == 0


def delete_group(client):
    return client.delete_group("g")


def delete_topic(client):
    return client.delete_topic("flights")


def reset(client):
    return client.do(requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET, "flights", "g", -1, False, queue_id=0, offset=2)


def clone(client):
    return client.do(requests.offsets.CLONE_GROUP_OFFSET, "other", "g", "flights", offline=True)


@pytest.mark.parametrize(("change", "offset"), [(delete_group, None), (delete_topic, None), (reset, "2"), (clone, "3")])
def test_an_administrators_change_of_offsets_survives_a_kill_right_after_its_answer(
    disk_cluster, tmp_path, change, offset
):
    client = disk_cluster.client()
    for _ in range(5):
        client.send("flights")
    client.pull("other", "flights")
    client.commit("other", "flights", 0, 3)
    commit(client, 5)
    disk_cluster.clock.advance(5_000)
    offsets = Path(disk_cluster.store_dir) / "config/consumerOffset.json"
    disk_cluster.eventually(lambda: offsets.exists() and b'"flights@g":{0:5}' in offsets.read_bytes())
    assert change(client).code == 0
    disk_cluster.kill()
    assert disk_cluster.client().committed("g", "flights") == offset
