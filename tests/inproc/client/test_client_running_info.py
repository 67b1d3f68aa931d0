# SPDX-License-Identifier: Apache-2.0
"""What tools learn of our consumers through a broker: running info with stacks, consumer status, and one message consumed directly."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from recorder import HELD_S, QUEUE, Recorder, by_kind, committed, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.client.hooks import ConsumeMessageContext
from sprocketmq.core.statistics import Measure
from sprocketmq.wire import bodies

CONCURRENT, ORDERLY = rmq.ConsumeConcurrentlyStatus, rmq.ConsumeOrderlyStatus


def rate_of(admin: rmq.Admin, consumer: rmq.PushConsumer) -> float:
    """Calls that ended well, per second of the last ten seconds of a clock that stands still."""
    status = admin.running_info("delays", consumer.client_id).status_table.get("flights")
    return 0.0 if status is None else status.consume_ok_tps


def test_running_info_says_every_option_by_javas_name_and_no_secret(rocketmq, admin, consumers, producer):
    seen = Recorder()
    send_all(producer, ["UA1", "UA2"])
    keys = {"access_key": "key-of-delays", "secret_key": "secret-of-delays"}
    consumer = consumers(seen, consume_timeout_ms=120_000, pull_batch_size=16, unit_name="unit-7", **keys)
    rocketmq.wait_until(lambda: len(seen) == 2)
    # A call is counted after it has ended; the listener sees its message before.
    rocketmq.wait_until(lambda: rate_of(admin, consumer) == 0.2)
    info = admin.running_info("delays", consumer.client_id)
    said = info.properties
    assert {name: said[name] for name in said if name.startswith("PROP_")} == {
        "PROP_NAMESERVER_ADDR": f"{rocketmq.namesrv_addr};",
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": "false",
        "PROP_THREADPOOL_CORE_SIZE": "20",
        "PROP_CONSUMER_START_TIMESTAMP": said["PROP_CONSUMER_START_TIMESTAMP"],
        "PROP_CLIENT_VERSION": f"SprocketMQ {rmq.__version__}",
    }
    expected = {
        "consumerGroup": "delays", "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeThreadMin": "20", "consumeTimeout": "2", "consumeTimeoutMillis": "120000", "pullBatchSize": "16",
        "maxReconsumeTimes": "-1", "allocateMessageQueueStrategy": "AVG", "unitName": "unit-7", "pullInterval": "0",
        "suspendCurrentQueueTimeMillis": "1000", "heartbeatBrokerInterval": "30000", "useTLS": "false",
    }  # fmt: skip
    assert {name: said.get(name) for name in expected} == expected
    assert not [value for value in said.values() if "of-delays" in value]
    assert info.jstack is None
    assert info.status_table["flights"].consume_failed_msgs == 0
    assert {one.topic for one in info.subscription_set} == {"flights", "%RETRY%delays"}


def test_an_option_that_is_not_given_is_told_with_its_default(rocketmq, admin, consumers, producer):
    consumer = rocketmq.push_consumer("delays")  # not ``consumers``, which gives an option
    consumer.subscribe("flights")
    consumer.on_message(Recorder())
    with consumer:
        said = admin.running_info("delays", consumer.client_id).properties
    assert {name: value for name, value in said.items() if not name.startswith("PROP_")} == {
        "accessChannel": "LOCAL", "adjustThreadPoolNumsThreshold": "100000", "allocateMessageQueueStrategy": "AVG",
        "awaitTerminationMillisWhenShutdown": "5000", "clientRebalance": "true", "consumeConcurrentlyMaxSpan": "2000",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeMessageBatchMaxSize": "1", "consumeThreadMin": "20",
        "consumeTimeout": "15", "consumeTimeoutMillis": "900000", "consumerGroup": "delays", "enableTrace": "false",
        "followGroupRetryPolicy": "true", "heartbeatBrokerInterval": "30000", "instanceName": "DEFAULT", "maxDelayLevel": "18",
        "maxReconsumeTimes": "-1", "messageModel": "CLUSTERING", "mqClientApiTimeout": "3000",
        "namesrvAddr": rocketmq.namesrv_addr, "persistConsumerOffsetInterval": "5000", "pollNameServerInterval": "30000",
        "postSubscriptionWhenPull": "false", "pullBatchSize": "32", "pullBatchSizeInBytes": "262144", "pullInterval": "0",
        "pullThresholdForQueue": "1000", "pullThresholdForTopic": "-1", "pullThresholdSizeForQueue": "100",
        "pullThresholdSizeForTopic": "-1", "pullTimeDelayMillsWhenException": "1000", "recordMaxBytes": "67108864",
        "suspendCurrentQueueTimeMillis": "1000", "traceMsgBatchNum": "10", "unitMode": "false", "unlockDelay": "20000",
        "useTLS": "false", "vipChannelEnabled": "false",
    }  # fmt: skip


def test_a_queue_is_told_with_its_messages_its_progress_and_its_lock(rocketmq, admin, consumers, producer):
    producer.send_batch([rmq.Message("flights", b"x" * 700_000) for _ in range(5)])
    rocketmq.broker.offsets.commit("delays", "flights", 0, 2)
    go_on, entered = threading.Event(), threading.Event()

    def block(messages: Any, context: Any) -> Any:
        entered.set()
        go_on.wait(HELD_S)
        return ORDERLY.SUCCESS

    try:
        consumer = consumers(block, kind="orderly", start=False)
        consumer.subscribe("weather")
        consumer.start()
        assert entered.wait(10)
        called_ms = rocketmq.clock.now_ms()
        rocketmq.advance(1_000)  # the locks are renewed
        rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].last_lock_ms == called_ms + 1_000)
        rocketmq.advance(1_000)
        producer.send(rmq.Message("flights", b"x"))
        rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count == 4)
        found = admin.running_info("delays", consumer.client_id).mq_table[QUEUE]
        assert (found.commit_offset, found.droped, found.locked, found.try_unlock_times) == (2, False, True, 0)
        assert (found.cached_msg_min_offset, found.cached_msg_max_offset, found.cached_msg_size_in_mi_b) == (2, 5, 2)
        assert (found.cached_msg_count, found.transaction_msg_count, found.transaction_msg_min_offset) == (3, 1, 2)
        times_ms = (found.last_consume_timestamp, found.last_lock_timestamp, found.last_pull_timestamp)
        assert times_ms == (called_ms, called_ms + 1_000, called_ms + 2_000)
        consumer.unsubscribe("flights")
        rocketmq.advance_until(lambda: QUEUE not in consumer.process_queues)
        rocketmq.wait_until(
            lambda: admin.running_info("delays", consumer.client_id).mq_table[QUEUE].try_unlock_times >= 1
        )
        found = admin.running_info("delays", consumer.client_id).mq_table[QUEUE]
        assert (found.commit_offset, found.droped, found.locked) == (2, True, True)
    finally:
        go_on.set()


def test_stacks_show_the_lines_that_listeners_execute(rocketmq, admin, consumers, producer):
    go_on, entered = threading.Event(), threading.Event()

    def stands_here(message: rmq.MessageExt) -> None:
        entered.set()
        go_on.wait(HELD_S)

    send_all(producer, ["UA1"])
    consumer = consumers(stands_here)
    try:
        assert entered.wait(10)
        info = admin.running_info("delays", consumer.client_id, jstack=True)
    finally:
        go_on.set()
    held = info.mq_table[QUEUE]
    assert (held.cached_msg_count, held.transaction_msg_count, held.locked) == (1, 0, False), "as Java counts them"
    stacks = info.jstack
    assert stacks is not None
    (line,) = [line for line in stacks.splitlines() if "stands_here" in line]
    assert line.startswith("sprocketmq-delays")
    assert "test_client_running_info.py:" in line
    # Of a task each coroutine that waits for the next, the innermost first.
    assert 0 < stacks.index("PullLoop._ask(pull_loop.py:") < stacks.index("PullLoop._run(pull_loop.py:")
    assert "STATE: WAITING" in stacks


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ValueError("no such account " + "x" * 2_000), "ValueError: no such account x"),
        (Unspeakable(), "Unspeakable: its text cannot be had (RuntimeError), refuse("),
        (rmq.RetryLater("not yet"), "RetryLater: not yet, refuse("),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_running_info_has_the_last_exception_of_a_listener(failure, text, rocketmq, admin, consumers, producer):
    def refuse(message: rmq.MessageExt) -> None:
        raise failure

    consumer = consumers(refuse)
    assert admin.running_info("delays", consumer.client_id).user_consumer_info == dict.fromkeys(
        (bodies.OLDEST_CALL_TIMESTAMP, bodies.CONSUMED_SINCE_START), "0"
    )
    send_all(producer, ["UA1"])
    rocketmq.wait_until(
        lambda: bodies.LAST_FAILURE in admin.running_info("delays", consumer.client_id).user_consumer_info
    )
    told = admin.running_info("delays", consumer.client_id).user_consumer_info
    assert told[bodies.LAST_FAILURE].startswith(text)
    assert len(told[bodies.LAST_FAILURE]) <= 1_000
    assert told[bodies.CONSUMED_SINCE_START] == "0"
    failed = None if isinstance(failure, rmq.RetryLater) else "1"
    rocketmq.wait_until(
        lambda: (
            admin.running_info("delays", consumer.client_id).user_consumer_info.get(bodies.FAILED_SINCE_START) == failed
        )
    )
    assert told[bodies.LAST_FAILURE_TIMESTAMP] == str(rocketmq.clock.now_ms())


def test_a_pull_consumer_reports_running_info_too(rocketmq, admin, producer):
    send_all(producer, ["UA1"])
    with rocketmq.pull_consumer("readers") as reader:
        reader.subscribe("flights")
        running = parts_of(reader)
        info = admin.running_info("readers", running.client_id)
        said = info.properties
        assert said["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        expected = {
            "consumerGroup": "readers", "autoCommit": "true", "autoCommitIntervalMillis": "5000", "pullBatchSize": "10",
            "pullThresholdForAll": "10000", "pullThresholdForQueue": "1000", "pullThresholdSizeForQueue": "100",
            "consumeMaxSpan": "2000", "pollTimeoutMillis": "5000", "topicMetadataCheckIntervalMillis": "30000",
            "brokerSuspendMaxTimeMillis": "20000", "consumerTimeoutMillisWhenSuspend": "30000",
            "pullTimeDelayMillsWhenException": "1000", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        }  # fmt: skip
        assert {name: said.get(name) for name in expected} == expected
        assert "consumeTimeout" not in said
        assert set(info.status_table) == {"flights"}


def test_consumer_status_is_the_progress_in_memory(rocketmq, admin, consumers, producer):
    seen = Recorder()
    send_all(producer, ["1", "2", "3"])
    consumer = consumers(seen)
    running = parts_of(consumer)
    rocketmq.wait_until(lambda: running.offset_store.progress.read(QUEUE) == 3)
    assert admin.consume_status("flights", "delays") == {consumer.client_id: {QUEUE: 3}}


@pytest.mark.parametrize(("kind", "answer", "expected", "auto_commit"), [
    ("concurrent", CONCURRENT.CONSUME_SUCCESS, "CR_SUCCESS", True),
    ("concurrent", CONCURRENT.RECONSUME_LATER, "CR_LATER", True),
    ("concurrent", None, "CR_RETURN_NULL", True),
    ("concurrent", ValueError("no such plane"), "CR_THROW_EXCEPTION", True),
    ("concurrent", rmq.RetryLater(3), "CR_LATER", True),
    ("orderly", ORDERLY.SUCCESS, "CR_SUCCESS", True),
    ("orderly", ORDERLY.COMMIT, "CR_COMMIT", False),
    ("orderly", ORDERLY.ROLLBACK, "CR_ROLLBACK", False),
    ("orderly", ORDERLY.SUSPEND_CURRENT_QUEUE_A_MOMENT, "CR_LATER", True),
    ("orderly", None, "CR_RETURN_NULL", True),
    ("orderly", ValueError("no such plane"), "CR_THROW_EXCEPTION", True),
    ("async", CONCURRENT.CONSUME_SUCCESS, "CR_SUCCESS", True),
])  # fmt: skip
def test_one_message_is_consumed_directly_without_any_effect(
    rocketmq, admin, consumers, producer, kind, answer, expected, auto_commit
):
    seen: list[rmq.MessageExt] = []
    hooked: list[ConsumeMessageContext] = []

    class Hook:
        def before_consume(self, context: ConsumeMessageContext) -> None:
            hooked.append(context)

        def after_consume(self, context: ConsumeMessageContext) -> None: ...

    def listen(messages: Any, context: Any) -> Any:
        seen.extend(messages)
        if kind == "orderly":
            context.auto_commit = auto_commit
        if isinstance(answer, BaseException):
            raise answer
        return answer

    rocketmq.create_topic("others", queues=1)
    sent = producer.send(rmq.Message("flights", b"UA1"))
    consumer = consumers(
        by_kind(kind, listen),
        topic="others",
        kind="orderly" if kind == "orderly" else "concurrent",
        start=False,
    )
    consumer.add_hook(Hook())
    consumer.start()
    result = admin.consume_directly("delays", consumer.client_id, sent.offset_message_id)
    assert (result.consume_result, result.order, result.auto_commit) == (expected, kind == "orderly", auto_commit)
    if isinstance(answer, ValueError):
        assert result.remark is not None
        assert result.remark.startswith("ValueError: no such plane, listen(")
    assert [message.body for message in seen] == [b"UA1"]
    assert hooked == []
    statistics = consumer.statistics
    consumer.shutdown()  # waits for send-backs under way
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX") == []
    assert statistics.status("flights", rocketmq.clock.now_ms()).consume_failed_msgs == 0
    assert rocketmq.consumer_offset("delays", "flights") == {}


def test_consuming_directly_a_message_that_is_in_hand_moves_no_progress(rocketmq, admin, producer, consumers):
    running, release = threading.Event(), threading.Event()

    def listen(message: rmq.MessageExt) -> None:
        if message.body == b"1" and not running.is_set():
            running.set()
            release.wait(HELD_S)

    consumer = consumers(listen)
    _, second = send_all(producer, ["0", "1"])
    assert running.wait(20)
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].commit_offset == 1)
    directly = admin.consume_directly("delays", consumer.client_id, second.offset_message_id)
    assert directly.consume_result == "CR_SUCCESS"
    assert committed(rocketmq, consumer) == consumer.process_queues[QUEUE].commit_offset == 1
    release.set()
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].commit_offset == 2)


def test_the_log_has_the_statistics_of_each_full_minute(rocketmq, consumers, producer, caplog):
    caplog.set_level(logging.DEBUG, "sprocketmq.client.statistics")
    now_ms = rocketmq.clock.now_ms
    day_ms, hour_ms = 24 * 3_600_000, 3_600_000
    rocketmq.clock.jump(day_ms - now_ms() % day_ms + 10 * hour_ms + 30_000)  # 10:00:30
    seen = Recorder()
    send_all(producer, ["1", "2", "3"])
    consumer = consumers(seen)
    rocketmq.wait_until(lambda: consumer.statistics.since_start("flights", Measure.CONSUME_OK_TPS) == (3, 3))
    rocketmq.advance(29_999)
    assert not rocketmq._holds_within(lambda: "Stats In One" in caplog.text, 50)
    rocketmq.advance(1)  # half a minute after the start, and a full minute of the clock
    rocketmq.wait_until(lambda: "[CONSUME_OK_TPS] [flights@delays] Stats In One Minute, SUM: 3" in caplog.text)
    assert {one.levelname for one in caplog.records if "Stats In One" in one.getMessage()} == {"DEBUG"}
    rocketmq.advance(60_000)
    rocketmq.wait_until(lambda: caplog.text.count("[CONSUME_OK_TPS] [flights@delays] Stats In One Minute") == 2)
    for span, until_ms in (("Hour", 11 * hour_ms), ("Day", 24 * hour_ms)):
        rocketmq.clock.jump(until_ms - now_ms() % day_ms - 60_000)
        rocketmq.advance(59_999)
        assert not rocketmq._holds_within(lambda span=span: f"Stats In One {span}" in caplog.text, 50)
        rocketmq.advance(1)
        said = f"[CONSUME_OK_TPS] [flights@delays] Stats In One {span}, SUM: 3"
        rocketmq.wait_until(lambda said=said: said in caplog.text)
