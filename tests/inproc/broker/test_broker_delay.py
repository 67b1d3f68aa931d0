# SPDX-License-Identifier: Apache-2.0
"""Delay levels over time: levels that change, clocks that are set, kills between two steps, stores that refuse; send-back's refusals."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from msgspec import structs

from sprocketmq.broker import Broker
from sprocketmq.broker.delivery import waiting_records
from sprocketmq.broker.handlers.messages.special_messages import special_message
from sprocketmq.core.resource_names import SCHEDULE_TOPIC
from sprocketmq.errors import StoreNotWritable
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.store import MessageStore, StoredMessage, config_files
from sprocketmq.store.files import mapped_progress
from sprocketmq.store.queue.unit import FILLER_SIZE
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records import properties as props

# -- levels that change --------------------------------------------------------------------------------------------------------


def test_a_changed_level_applies_at_once_and_no_message_waits_longer_than_its_level(disk_cluster):
    client = disk_cluster.client()
    client.send("flights", b"old", delay_level=5)  # a minute
    disk_cluster.restart_broker(message_delay_level="1s 5s 10s 30s 20s")
    client = disk_cluster.client()
    client.send("flights", b"new", delay_level=5)
    disk_cluster.clock.advance(1)
    assert client.bodies() == [b"old"], "as at Apache: due later than the level allows means due now"
    disk_cluster.clock.advance(20_000)
    assert client.bodies() == [b"old", b"new"]


def test_a_removed_level_delivers_its_messages_at_their_original_times(disk_cluster):
    client = disk_cluster.client()
    client.send("flights", b"orphan", delay_level=4)
    disk_cluster.restart_broker(message_delay_level="1s 2s")
    disk_cluster.clock.advance(29_998)
    client = disk_cluster.client()
    assert client.bodies() == []
    disk_cluster.clock.advance(1_000)
    assert client.bodies() == [b"orphan"]


@pytest.mark.parametrize("cluster", [{"message_delay_level": " ".join(f"{n}s" for n in range(1, 31))}], indirect=True)
def test_there_may_be_more_than_eighteen_levels(cluster, client):
    client.send("flights", b"x", delay_level=25)
    cluster.clock.advance(24_999)
    assert client.bodies() == []
    cluster.clock.advance(1)
    assert client.bodies() == [b"x"]


# -- clocks that are set -------------------------------------------------------------------------------------------------------


def test_after_the_clock_went_back_nothing_waits_longer_than_its_level(cluster, client):
    client.send("flights", b"x", delay_level=3)
    cluster.clock.jump(-3_600_000)
    cluster.clock.advance(20_000)
    assert client.bodies() == [b"x"]


def test_after_the_clock_went_forward_what_is_due_comes_within_seconds(cluster, client):
    client.send("flights", b"level", delay_level=18)
    client.send("flights", b"timer", properties={props.TIMER_DELAY_SEC: "7200"})
    cluster.clock.jump(3 * 3_600_000)
    cluster.clock.advance(10_000)
    assert sorted(client.bodies()) == [b"level", b"timer"]


# -- kills -----------------------------------------------------------------------------------------------------------------------


def test_a_kill_between_a_delivery_and_its_progress_neither_repeats_nor_skips_a_message(
    disk_cluster, tmp_path, monkeypatch
):
    client = disk_cluster.client()
    for n in range(3):
        client.send("flights", b"level %d" % n, delay_level=1)
        client.send("flights", b"timer %d" % n, properties={props.TIMER_DELAY_MS: "1000"})
    broker, real = disk_cluster.broker, disk_cluster.broker.put
    copies = []

    def put(message: StoredMessage, now_ms: int):
        result = real(message, now_ms)
        if (
            bytes(message.body).endswith(b"1") and message.topic == "flights"
        ):  # the moment between the append and the progress
            disk_cluster.copy_as_killed(tmp_path / f"killed{len(copies)}")
            copies.append(bytes(message.body))
        return result

    monkeypatch.setattr(broker.undeliverable, "deliver", put)
    disk_cluster.clock.advance(2_000)
    assert sorted(copies) == [b"level 1", b"timer 1"]
    everything = [b"level %d" % n for n in range(3)] + [b"timer %d" % n for n in range(3)]
    for number in range(len(copies)):
        disk_cluster.restart_on(tmp_path / f"killed{number}")
        disk_cluster.clock.advance(3_000)
        assert sorted(disk_cluster.client().bodies()) == sorted(everything)


def test_two_power_cuts_in_the_middle_of_deliveries_repeat_nothing(disk_cluster, tmp_path, monkeypatch):
    client = disk_cluster.client()
    everything = [b"%d" % n for n in range(150)] + [b"early"] + [b"t%d" % n for n in range(150)]
    for body in everything:
        delay_ms = "1000" if body == b"early" else "2000"
        asked = {props.DELAY: "1"} if body.isdigit() else {props.TIMER_DELAY_MS: delay_ms}
        client.send("flights", body, properties=asked)

    real, images, cut_after = MessageStore.append_again, [], [b"60"]

    def append_again(store, message: StoredMessage, now_ms: int):
        result = real(store, message, now_ms)
        if bytes(message.body) in cut_after:
            cut_after.clear()
            timers = disk_cluster.broker.timers
            if len(images) == 2:  # as if the time for it had come now
                timers.files.sync(0, timers._snapshot())
            images.append(tmp_path / f"cut{len(images)}")
            disk_cluster.copy_as_killed(images[-1])
        return result

    monkeypatch.setattr(MessageStore, "append_again", append_again)
    for cut, next_cut in enumerate([b"t60", b"t90", b"none"]):
        disk_cluster.clock.advance(0 if cut else 4_000)
        disk_cluster.eventually(lambda cut=cut: len(images) > cut)
        disk_cluster.broker.stop()
        monkeypatch.setattr(mapped_progress, "boot_mark", lambda cut=cut: b"boot %d.........." % cut)
        cut_after.append(next_cut)
        disk_cluster.restart_on(images[cut])
    disk_cluster.clock.advance(3_000)
    assert sorted(disk_cluster.client().bodies()) == sorted(everything)


def test_a_start_reads_only_the_end_of_the_log_for_what_was_delivered(disk_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(waiting_records, "_MOST_UNCOUNTED_BYTES", 10_000)
    client = disk_cluster.client()
    client.send("flights", b"level", delay_level=1)
    client.send("flights", b"timer", properties={props.TIMER_DELAY_MS: "1000"})
    disk_cluster.clock.advance(12_000)
    files = [Path(disk_cluster.store_dir) / "config" / name for name in ("delayOffset.json", "timercheck")]
    for _ in range(3):  # nothing is delivered any more
        for _ in range(30):
            client.send("trains", b"x" * 1_000)
        before = [file.read_bytes() for file in files]
        while any(file.read_bytes() == old for file, old in zip(files, before, strict=True)):
            disk_cluster.clock.advance(1_000)
            disk_cluster.eventually(lambda: disk_cluster.broker.timers._saving is None)
    begins = []
    real = MessageStore.copied_from

    def copied_from(store, at):
        begins.append(store.max_physical_offset - at)
        return real(store, at)

    monkeypatch.setattr(MessageStore, "copied_from", copied_from)
    disk_cluster.kill()
    assert len(begins) == 2
    assert max(begins) < 31_000
    disk_cluster.clock.advance(2_000)
    assert sorted(disk_cluster.client().bodies()) == [b"level", b"timer"]


def test_due_messages_do_not_wait_for_the_disk_while_progress_is_written(disk_cluster, monkeypatch):
    real, threads = config_files.save_config, {"delayOffset.json": set(), "timermetrics": set()}

    def save(path: str, raw: bytes, **options: object) -> None:
        threads.setdefault(Path(path).name, set()).add(threading.current_thread())
        real(path, raw, **options)

    monkeypatch.setattr(config_files, "save_config", save)
    client = disk_cluster.client()
    client.send("flights", b"level", delay_level=1)
    client.send("flights", b"timer", properties={props.TIMER_DELAY_MS: "1000"})
    disk_cluster.clock.advance(12_000)
    disk_cluster.eventually(lambda: threads["delayOffset.json"] and threads["timermetrics"])
    loop_thread = disk_cluster.on_loop(threading.current_thread)
    assert loop_thread not in threads["delayOffset.json"] | threads["timermetrics"]


@pytest.mark.parametrize("asked", [{props.DELAY: "1"}, {props.TIMER_DELAY_MS: "1000"}])
def test_a_body_that_changed_while_it_waited_is_said_because_its_copy_has_a_checksum_of_its_own(
    disk_cluster, caplog, asked
):
    disk_cluster.client().send("flights", b"changes", properties=asked)
    disk_cluster.broker.stop()
    (log_file,) = (Path(disk_cluster.store_dir) / "commitlog").iterdir()
    place = log_file.read_bytes().index(b"changes")

    def write(letter: bytes) -> None:
        with open(log_file, "r+b") as file:
            file.seek(place)
            file.write(letter)

    write(b"C")
    disk_cluster.restart_broker()
    disk_cluster.clock.advance(3_000)
    assert disk_cluster.client().bodies() == [b"Changes"]
    assert sum("wrong checksum" in line for line in caplog.messages) == 1
    write(b"c")  # the store is checked when the cluster ends


# -- what cannot be delivered ----------------------------------------------------------------------------------------------------


def test_a_refused_delivery_holds_up_its_level_only_and_keeps_its_order(cluster, client, monkeypatch):
    for n in range(4):
        client.send("flights", b"%d" % n, delay_level=1)
    client.send("flights", b"other level", delay_level=2)
    schedule, real = cluster.broker.schedule, cluster.broker.put
    refused = []

    def put(message: StoredMessage, now_ms: int):
        if message.body == b"2" and len(refused) < 20:
            refused.append(now_ms)
            raise StoreNotWritable("the disk is full")
        return real(message, now_ms)

    monkeypatch.setattr(schedule._undeliverable, "deliver", put)
    cluster.clock.advance(5_000)
    assert client.bodies() == [b"0", b"1", b"other level"]
    cluster.clock.advance(60_000)
    assert client.bodies() == [b"0", b"1", b"other level", b"2", b"3"]
    assert 5 <= len(refused) <= 20


def fill_level(cluster, level: int, count: int, body_bytes: int = 0, queue_id: int = 0) -> None:
    """Messages of one level, all stored in this moment."""
    broker = cluster.broker

    def fill() -> None:
        now_ms = cluster.clock.now_ms()
        for n in range(count):
            message = StoredMessage("flights", queue_id, b"%d" % n + bytes(body_bytes))
            broker.schedule.let_wait(message, level, now_ms)
            broker.put(message, now_ms)

    cluster.on_loop(fill)


def steps_of(cluster, monkeypatch, name: str = "_deliver_due") -> list[tuple[int, int]]:
    """(level, messages delivered) of each step from now on."""
    schedule, steps, copies = cluster.broker.schedule, [], []
    put, step = cluster.broker.put, getattr(schedule, name)

    def counted_put(message: StoredMessage, now_ms: int):
        copies.append(message.topic)
        return put(message, now_ms)

    def counted_step(level: int) -> bool:
        before = len(copies)
        try:
            return step(level)
        finally:
            steps.append((level, len(copies) - before))

    monkeypatch.setattr(schedule._undeliverable, "deliver", counted_put)
    monkeypatch.setattr(schedule, name, counted_step)
    return steps


def test_levels_that_are_due_at_once_take_turns(cluster, client, monkeypatch):
    client.send("flights", b"before", queue_id=2)
    fill_level(cluster, 2, 500, queue_id=0)
    cluster.clock.advance(4_000)
    fill_level(cluster, 1, 500, queue_id=1)
    steps = steps_of(cluster, monkeypatch)
    cluster.clock.advance(1_000)
    assert sorted(steps[:2]) == sorted(steps[2:4]) == sorted(steps[4:6]) == [(1, 128), (2, 128)]
    assert client.bodies(queue_id=0) == client.bodies(queue_id=1) == [b"%d" % n for n in range(500)]


def test_large_messages_end_a_step_before_their_count_does(cluster, client, monkeypatch):
    client.send("flights", b"before", queue_id=1)
    fill_level(cluster, 1, 20, body_bytes=200_000)
    steps = steps_of(cluster, monkeypatch)
    cluster.clock.advance(1_000)
    assert sum(count for _, count in steps) == 20
    assert max(count for _, count in steps) == 3


def test_a_stream_of_messages_is_delivered_some_at_a_time_and_all_within_milliseconds(cluster, client, monkeypatch):
    for n in range(40):
        client.send("flights", b"%d" % n, delay_level=1)
        cluster.clock.advance(1)
    sent_ms = {bytes(m.body): m.store_timestamp_ms for m in client.messages(SCHEDULE_TOPIC, 0)}
    steps = steps_of(cluster, monkeypatch)
    cluster.clock.advance(2_000)
    late_ms = [m.store_timestamp_ms - 1_000 - sent_ms[bytes(m.body)] for m in client.messages("flights")]
    assert len(late_ms) == 40
    assert 0 == min(late_ms) <= max(late_ms) <= 5
    assert len([count for _, count in steps if count]) <= 40 / 5 + 1


def test_a_record_that_is_gone_is_passed_over_within_a_step(disk_cluster):
    client = disk_cluster.client()
    for n in range(3):
        client.send("flights", b"%d" % n, delay_level=1)
    broker = disk_cluster.broker

    def damage() -> None:
        unit = broker.store.units(SCHEDULE_TOPIC, 0, 1, 1)[0]
        broker.store.commit_log.view[unit.physical_offset + 7] ^= 0xFF  # its magic

    disk_cluster.on_loop(damage)
    disk_cluster.clock.advance(1_000)
    assert client.bodies() == [b"0", b"2"]
    disk_cluster.on_loop(damage)  # sound again: the store's laws are checked at the end


def test_a_lost_message_at_the_head_of_its_level_holds_up_nothing(cluster, client):
    client.send("flights", b"lost", delay_level=1)
    queue = cluster.broker.store.consume_queues.queues[SCHEDULE_TOPIC, 0]
    entry = queue.unit(0)
    cluster.on_loop(lambda: queue.put_at(0, 0, FILLER_SIZE, 0))  # what a start leaves of it
    cluster.clock.advance(1_000)
    client.send("flights", b"kept", delay_level=1)
    cluster.clock.advance(1_000)
    assert client.bodies() == [b"kept"]
    cluster.on_loop(lambda: queue.put_at(0, *entry))  # sound again: the store's laws are checked at the end


# -- send-back's refusals ----------------------------------------------------------------------------------------------------------


def send_back(client, group: str = "delays", offset: int = 0, level: int = 0, **fields: object):
    return client.do(requests.messages.CONSUMER_SEND_MSG_BACK, offset=offset, group=group, delay_level=level, **fields)


def test_each_check_of_send_back_comes_in_apaches_order(cluster, client):
    """Everything is wrong at first, and is put right one by one."""
    client.send("flights", b"x")
    (message,) = client.messages("flights")
    broker = cluster.broker
    log_end = cluster.on_loop(lambda: broker.store.max_physical_offset)
    bad_offset = 3

    def permission(perm: int) -> None:
        import msgspec

        broker.config = msgspec.structs.replace(broker.config, broker_permission=perm)

    cluster.on_loop(lambda: permission(4))
    assert (
        send_back(client, group="no group at all", offset=bad_offset).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    )
    client.pull("delays", "flights")
    cluster.on_loop(lambda: setattr(broker.groups.table["delays"], "retry_queue_nums", 0))
    assert send_back(client, offset=bad_offset).code == ResponseCode.NO_PERMISSION
    cluster.on_loop(lambda: permission(6))
    assert send_back(client, offset=bad_offset).code == 0, "dropped, before anything is looked up"
    assert cluster.on_loop(lambda: broker.topics.get("%RETRY%delays")) is None
    cluster.on_loop(lambda: setattr(broker.groups.table["delays"], "retry_queue_nums", 3))
    assert send_back(client, offset=bad_offset).code == ResponseCode.SYSTEM_ERROR
    made = cluster.on_loop(lambda: broker.topics.get("%RETRY%delays"))
    assert (made.perm, made.read_queue_nums, made.topic_sys_flag) == (6, 3, 0)
    cluster.on_loop(lambda: setattr(made, "perm", 4))
    assert send_back(client, offset=message.commit_log_offset).code == ResponseCode.NO_PERMISSION
    assert cluster.on_loop(lambda: broker.store.max_physical_offset) == log_end, "nothing was stored so far"
    cluster.on_loop(lambda: setattr(made, "perm", 6))
    assert send_back(client, offset=message.commit_log_offset).code == 0


def test_a_unit_gets_a_retry_topic_of_its_kind(cluster, client):
    client.send("flights", b"x")
    (message,) = client.messages("flights")
    assert send_back(client, offset=message.commit_log_offset, unit_mode=True).code == 0
    assert cluster.on_loop(lambda: cluster.broker.topics.get("%RETRY%delays").topic_sys_flag) == 2


def test_a_timer_message_that_failed_waits_for_its_level_and_no_longer_asks_for_a_moment(cluster, client):
    client.send("flights", b"x", properties={props.TIMER_DELAY_SEC: "2"})
    cluster.clock.advance(4_000)
    (message,) = client.messages("flights")
    assert send_back(client, offset=message.commit_log_offset).code == 0
    cluster.clock.advance(10_000)
    (retried,) = client.messages("%RETRY%delays")
    assert props.TIMER_DELAY_SEC not in retried.properties
    assert (retried.body, retried.reconsume_times) == (b"x", 1)


@pytest.mark.parametrize(
    "more",
    [
        "DELAY\x013\x02",
        "DELAY\x0199\x02",
        "DELAY\x010\x02",
        "DELAY\x01-1\x02",
        "DELAY\x013\x02TIMER_DELAY_SEC\x015\x02",
        "DELAY\x013\x02POP_CK\x01x\x02",
        "DELAY\x013\x02TRAN_MSG\x01true\x02PGROUP\x01p\x02",
        "DELAY\x013\x02TRAN_MSG\x01false\x02",
        "DELAY\x013\x02REAL_TOPIC\x01mine\x02REAL_QID\x019\x02",
        "REAL_TOPIC\x01flights\x02REAL_QID\x010\x02TIMER_OUT_MS\x011\x02DELAY\x013\x02",
    ],
)
def test_the_cached_delay_level_is_that_of_the_properties(more):
    """A message whose properties ask for a level and for nothing else is not searched for all that it might be."""
    broker = Broker(clock=ManualClock(1_000))
    text = f"UNIQ_KEY\x01AC1F\x02TAGS\x01A\x02{more}"
    unique_key, meaning = broker.identity.meanings.find(text)
    host = broker.identity.host

    def parked(meaning, topic: str, sys_flag: int) -> tuple[object, ...]:
        raw = (text + meaning.added).encode()
        message = StoredMessage(topic, 2, b"body", raw, 0, sys_flag, 1, host, host, 0, 0, meaning.tags_code)
        refusal = special_message(broker, Command(310), message, meaning, 1_000)
        return structs.astuple(message), refusal if refusal is None else (refusal.code, refusal.remark)

    assert unique_key == "AC1F"
    for topic in ("flights", "%RETRY%g", "%DLQ%g", "rmq_sys_wheel_timer"):
        for sys_flag in (0, 4, 8, 12, 1):
            uncached = structs.replace(meaning, delay_level=0)
            assert parked(meaning, topic, sys_flag) == parked(uncached, topic, sys_flag), (topic, sys_flag)


def test_a_dead_letter_of_a_message_with_a_delay_is_not_delayed(cluster):
    """Its properties were changed on the way: what was remembered of them as they were sent does not count."""
    client = cluster.client()
    assert client.heartbeat("c", group="g", topics={"flights": "*"}).code == 0
    for _ in range(2):
        answer = client.send("%RETRY%g", b"given up", delay_level=3, reconsume_times=17, max_reconsume_times=16)
        assert answer.code == 0
    assert client.bodies("%DLQ%g") == [b"given up"] * 2
