# SPDX-License-Identifier: Apache-2.0
"""record=: whole runs of a consumer, written down and run again."""

from __future__ import annotations

import json
import logging
import re
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from recorder import HELD_S, QUEUE, Consumers, Recorder, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.cli.main import app
from sprocketmq.client.observe.recorder import record_lines
from sprocketmq.core.consume.consume_progress import ConsumeProgress
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.replay.decision_replay import Replay
from sprocketmq.core.replay.decision_story import Story
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "delays.jsonl"


def replayed(file: Path) -> tuple[Replay, Story]:
    replay, story = Replay(), Story(lambda delivery: True)
    for step in replay.run(record_lines(file)):
        story.add(step)
    assert [str(one) for one in replay.differences] == []
    return replay, story


def said(file: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["replay", str(file), *options])
    assert result.exit_code == 0, result.output
    return result.output


def a_stuck_run(rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, file: Path) -> None:
    """One message of three is stuck until its timeout and comes again 10 s later."""
    release = threading.Event()

    def answer(message: rmq.MessageExt) -> None:
        if message.body == b"stuck" and message.reconsume_times == 0:
            release.wait(HELD_S)

    seen = Recorder(answer)
    consumer = consumers(seen, consume_timeout_ms=60_000, record=file)
    for name in ("stuck", "a", "b"):
        producer.send(rmq.Message("flights", name.encode(), keys=[f"key-{name}"]))
    rocketmq.wait_until(lambda: len(seen) == 3 and consumer.process_queues[QUEUE].count == 1)
    rocketmq.advance_until(lambda: rocketmq.messages("SCHEDULE_TOPIC_XXXX"), step_ms=60_000)
    release.set()
    rocketmq.advance_until(lambda: len(seen) == 4)
    rocketmq.advance_until(lambda: rocketmq.consumer_offset("delays", "%RETRY%delays") == {0: 1})
    consumer.shutdown()


def test_a_stuck_message_is_explained(rocketmq, producer, consumers, file):
    a_stuck_run(rocketmq, producer, consumers, file)
    _, story = replayed(file)
    (stuck,) = story.stuck
    assert (stuck.keys, stuck.sent_back, stuck.late) == (["key-stuck"], True, True)
    (stall,) = [stall for stall in story.stalls if stall.kind == "progress"]
    assert (stall.message_id, stall.offset, stall.done_behind) == (stuck.message_id, 0, 2)
    assert [one.tries for one in story.deliveries_of(stuck.message_id)] == [0, 1]
    assert story.deliveries_of("key-stuck")[1].consumed
    assert story.unfinished == []

    assert f"why: offset 0 ({stuck.message_id}) is not finished" in said(file, "--message", "key-a", "--why")
    assert "progress is 3" in said(file, "--queue", "flights@broker-a:0")
    answer = json.loads(said(file, "--json", "--message", "key-stuck"))
    assert (answer["complete"], answer["differences"], len(answer["deliveries"])) == (True, [], 2)


def test_a_replay_that_differs_is_reported_and_ends_with_1(rocketmq, producer, consumers, file, monkeypatch):
    a_stuck_run(rocketmq, producer, consumers, file)
    done = ProcessQueue.done

    def one_too_far(self: ProcessQueue, messages: list[rmq.MessageExt]) -> int | None:
        offset = done(self, messages)
        return None if offset is None else offset + 1

    monkeypatch.setattr(ProcessQueue, "done", one_too_far)
    result = CliRunner().invoke(app, ["replay", str(file)])
    assert result.exit_code == 1
    assert "done of flights/broker-a/0#1 gave 0 when it was recorded, and gives 1 here" in result.output


def test_without_record_nothing_is_made_and_the_plain_machines_run(rocketmq, consumers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    consumer = consumers(Recorder())
    running = parts_of(consumer)
    assert running.tape is None
    assert type(running.offset_store.progress) is ConsumeProgress
    assert {type(one) for one in running.rebalancer.table.active().values()} == {ProcessQueue}
    assert running.hooks.consume == []
    assert list(tmp_path.iterdir()) == []


def test_retries_dead_letters_and_a_full_cache_replay_over_several_parts(rocketmq, producer, consumers, file):
    rocketmq.create_topic("flights", queues=2)

    def answer(message: rmq.MessageExt) -> None:
        if message.body.endswith(b"7"):
            raise ValueError("no sevens")

    seen = Recorder(answer)
    consumer = consumers(
        seen,
        record=file,
        record_max_bytes=64 * 1024,
        max_reconsume_times=1,
        pull_threshold_for_queue=20,
        consume_thread_count=2,
    )
    for begin in range(0, 200, 20):
        send_all(producer, [str(number) for number in range(begin, begin + 20)])
    rocketmq.advance_until(lambda: len(rocketmq.messages("%DLQ%delays")) == 20, step_ms=1_000)
    rocketmq.advance_until(lambda: sum(rocketmq.consumer_offset("delays", "flights").values()) == 200)
    consumer.shutdown()
    replay, story = replayed(file)
    assert replay.header["part"] > 0
    assert story.unfinished == []
    assert any(one.dead_lettered for one in story.deliveries.values())
    file.with_name(f"{file.name}.1").unlink()
    _, rest = replayed(file)
    assert rest.unfinished == []
    assert len(rest.deliveries) < len(story.deliveries)


def test_an_orderly_run_with_a_second_member_replays(rocketmq, producer, consumers, file):
    rocketmq.create_topic("flights", queues=4)
    failed: set[bytes] = set()

    def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        if messages[0].body.endswith(b"5") and messages[0].body not in failed:
            failed.add(messages[0].body)
            return rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        done.append(messages[0].body)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    done: list[bytes] = []
    first = consumers(in_order, kind="orderly", record=file, instance_name="first")

    def shares() -> list[int]:
        return [sum(queue.topic == "flights" for queue in one.assigned_queues) for one in (first, second)]

    send_all(producer, [str(number) for number in range(40)])
    rocketmq.advance_until(lambda: len(done) == 40)
    second = consumers(in_order, kind="orderly", instance_name="second")
    rocketmq.advance_until(lambda: shares() == [2, 2])
    second.shutdown()
    rocketmq.advance_until(lambda: shares() == [4, 0])
    send_all(producer, [str(number) for number in range(40, 80)])
    rocketmq.advance_until(lambda: len(done) == 80)
    first.shutdown()
    _, story = replayed(file)
    assert story.dropped_for["reassigned"] > 0
    told = [event.what for one in story.deliveries.values() for event in one.story or ()]
    assert "the queue is suspended for 1.0 s" in told
    assert len({one.message_id for one in story.deliveries.values() if one.consumed}) == 80


def test_a_long_orderly_call_is_logged_beside_those_that_ended_before(rocketmq, producer, consumers, tmp_path):
    running, release = threading.Event(), threading.Event()

    def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        if messages[0].body == b"3":
            running.set()
            release.wait(HELD_S)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    producer.send_batch([rmq.Message("flights", str(number).encode()) for number in range(5)])
    consumer = consumers(in_order, kind="orderly", record=tmp_path / "long.jsonl")
    assert running.wait(20)
    consumer.persist_offsets()
    _, story = replayed(tmp_path / "long.jsonl")
    assert sorted(one.offset for one in story.deliveries.values() if one.settled_ms is not None) == [0, 1, 2]
    release.set()


def test_a_queue_that_is_held_back_says_since_when_and_why(rocketmq, producer, consumers, file):
    for _ in range(4):
        producer.send_batch([rmq.Message("flights", b"x") for _ in range(32)])
    release = threading.Event()
    seen = Recorder(lambda message: release.wait(HELD_S))
    consumer = consumers(seen, record=file, pull_threshold_for_queue=50, consume_thread_count=1)
    rocketmq.wait_until(lambda: QUEUE in consumer.process_queues and consumer.process_queues[QUEUE].count > 50)
    rocketmq.advance(5_000)
    release.set()
    rocketmq.advance_until(lambda: len(seen) == 128)
    consumer.shutdown()
    replayed(file)
    assert "flights/broker-a/0: not pulled for" in said(file)
    assert "messages cached, more than 50" in said(file)


def test_a_message_with_no_way_back_is_told_to_be_tried_again_here(rocketmq, producer, consumers, file):

    def answer(message: rmq.MessageExt) -> None:
        if message.reconsume_times == 0:
            raise ValueError("a body may be in here")

    seen = Recorder(answer)
    consumer = consumers(seen, record=file)
    back = rocketmq.faults.fail(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, times=None)
    copy = rocketmq.faults.fail(
        RequestCode.SEND_MESSAGE_V2,
        ResponseCode.MESSAGE_ILLEGAL,
        times=None,
        when=lambda command: command.ext_fields["b"].startswith("%RETRY%"),
    )
    producer.send(rmq.Message("flights", b"x", keys="k"))
    rocketmq.advance_until(lambda: len(seen) == 2)
    rocketmq.advance_until(lambda: rocketmq.consumer_offset("delays", "flights") == {0: 1})
    for fault in (back, copy):
        fault.remove()
    consumer.shutdown()
    _, story = replayed(file)
    told = [re.sub(r"after \d.*?:", "after some time:", one.what) for one in story.deliveries_of("k")[0].story or ()]
    tries = [line for line in told if "try" in line or "tried" in line or "raised" in line]
    assert tries == [
        "a listener begins, try 1",
        "the listener ends after some time: RECONSUME_LATER, it raised ValueError",
        "no retry copy could be stored: it is tried again here",
        "a listener begins, try 2",
    ]
    assert "a body may be in here" not in file.read_text()


def test_a_broadcasting_run_replays_and_says_what_was_given_up(rocketmq, producer, consumers, file, tmp_path):
    seen = Recorder(lambda message: 1 / 0)
    model = rmq.MessageModel.BROADCASTING
    consumer = consumers(seen, record=file, message_model=model, local_offset_store_dir=str(tmp_path))
    send_all(producer, ["a", "b"])
    rocketmq.wait_until(lambda: len(seen) == 2 and all(not one.count for one in consumer.process_queues.values()))
    consumer.shutdown()
    _, story = replayed(file)
    assert [one.status for one in story.deliveries.values()] == ["RECONSUME_LATER"] * 2
    assert "2 deliveries of 2 messages: 2 lost" in said(file)
    assert "progress 2" in said(file, "--queue", "flights@broker-a:0")


def test_messages_held_when_their_queue_leaves_are_delivered_again(rocketmq, producer, consumers, file):
    release = threading.Event()
    seen = Recorder(lambda message: release.wait(HELD_S))
    consumer = consumers(seen, record=file, await_termination_ms=10)
    send_all(producer, ["a"])
    rocketmq.wait_until(lambda: len(seen) == 1)
    consumer.shutdown()
    release.set()
    _, story = replayed(file)
    (one,) = story.deliveries.values()
    assert one.dropped
    assert [(event.what, event.why) for event in (one.story or ())[-1:]] == [
        ("dropped with its queue (shutdown)", "progress is 0: the next owner of the queue begins there")
    ]
    assert "1 dropped" in said(file)


def test_the_records_file_can_be_lost_while_the_consumer_runs(rocketmq, producer, consumers, file, caplog):
    seen = Recorder()
    with caplog.at_level(logging.ERROR):
        consumer = consumers(seen, record=file)
        file.unlink()
        send_all(producer, ["a", "b"])
        rocketmq.wait_until(lambda: len(seen) == 2)
        consumer.shutdown()
    assert caplog.records == []
