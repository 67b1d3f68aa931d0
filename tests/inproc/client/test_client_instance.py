"""What a running member does without being asked, and what tools learn of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from recorder import Recorder, send_all

import sprocketmq as rmq
from sprocketmq.net.engine import Engine
from sprocketmq.testing import HEARTBEATS, EmbeddedRocketMQ
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.command import Command, request

Consumers = Callable[..., rmq.PushConsumer]
QUEUE = rmq.MessageQueue("flights", "broker-a", 0)


def _count_heartbeats(rocketmq: EmbeddedRocketMQ) -> list[Command]:
    """The heartbeats from now on; none of them is touched."""
    seen: list[Command] = []

    def look(command: Command) -> bool:
        seen.append(command)
        return False

    rocketmq.faults.drop(HEARTBEATS, times=None, when=look)
    return seen


def test_heartbeats_keep_a_quiet_member_in_its_group(rocketmq: EmbeddedRocketMQ, consumers: Consumers) -> None:
    rocketmq.create_topic("flights", queues=1)
    consumer = consumers(Recorder())
    heartbeats = _count_heartbeats(rocketmq)
    with rocketmq.admin() as admin:
        begin_ms = rocketmq.clock.now_ms()
        while rocketmq.clock.now_ms() < begin_ms + 150_000:  # a broker forgets who is silent for 120 s
            before = len(heartbeats)
            rocketmq.advance_until(
                lambda before=before: len(heartbeats) > before, step_ms=5_000, limit_ms=90_000, patience_ms=100
            )
            assert admin.consumer_ids("delays") == [consumer.client_id]


def test_messages_that_wait_for_a_worker_are_not_consumed_after_their_queue_was_given_up(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    rocketmq.create_topic("weather", queues=1)
    running, release = threading.Event(), threading.Event()

    def block(message: rmq.MessageExt) -> None:
        running.set()
        release.wait(20)

    recorder = Recorder(block)
    consumer = consumers(recorder, consume_thread_count=1)
    send_all(producer, ["0", "1", "2"])
    assert running.wait(20)
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count == 3)
    consumer.subscribe("weather")
    consumer.unsubscribe("flights")
    rocketmq.wait_until(lambda: QUEUE not in consumer.process_queues)
    weather = rmq.MessageQueue("weather", "broker-a", 0)
    send_all(producer, ["rain"], topic="weather")
    rocketmq.wait_until(lambda: weather in consumer.process_queues and consumer.process_queues[weather].count == 1)
    release.set()
    rocketmq.wait_until(lambda: "rain" in recorder.bodies)  # the only worker came to it after "1" and "2"
    assert recorder.bodies == ["0", "rain"]


def _running_info(consumer: rmq.PushConsumer) -> bodies.ConsumerRunningInfo:
    running = consumer._async._running
    assert running is not None
    answer = Engine.shared().run(running.serve(request(RequestCode.GET_CONSUMER_RUNNING_INFO)))
    return bodies.ConsumerRunningInfo.decode(answer.body)


def test_running_info_tells_what_is_cached_and_how_far_progress_is(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    release = threading.Event()
    recorder = Recorder(lambda message: release.wait(20))
    consumer = consumers(recorder, consume_thread_count=1)
    send_all(producer, ["0", "1", "2"])
    rocketmq.wait_until(lambda: _running_info(consumer).mq_table[QUEUE].cached_msg_count == 3)
    info = _running_info(consumer).mq_table[QUEUE]
    assert (info.cached_msg_min_offset, info.cached_msg_max_offset) == (0, 2)
    release.set()
    rocketmq.wait_until(lambda: _running_info(consumer).mq_table[QUEUE].commit_offset == 3)
    assert _running_info(consumer).mq_table[QUEUE].cached_msg_count == 0


def test_consuming_directly_has_no_effect_on_progress_retries_or_numbers(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)

    def fail_the_second_time(message: rmq.MessageExt) -> None:
        if len(recorder) > 1:
            raise ValueError("not again")

    recorder = Recorder(fail_the_second_time)
    consumer = consumers(recorder)
    send_all(producer, ["x"])
    rocketmq.wait_until(lambda: _running_info(consumer).mq_table[QUEUE].commit_offset == 1)
    running = consumer._async._running
    assert running is not None
    (message,) = rocketmq.messages("flights")
    header = headers.ConsumeMessageDirectlyResultRequestHeader(consumer_group="delays", broker_name="broker-a")
    with rocketmq.admin() as admin:
        stored = admin._run(admin._async._api.view_message(rocketmq.broker_addr, message.commit_log_offset))
    answer = Engine.shared().run(running.serve(request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, bytes(stored))))
    result = bodies.ConsumeMessageDirectlyResult.decode(answer.body)
    assert (result.consume_result, result.remark) == ("CR_THROW_EXCEPTION", "ValueError: not again")
    statistics = consumer.statistics
    consumer.shutdown()  # waits for send-backs under way
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX") == []
    assert rocketmq.consumer_offset("delays", "flights") == {0: 1}
    assert statistics.status("flights", rocketmq.clock.now_ms()).consume_failed_msgs == 0
