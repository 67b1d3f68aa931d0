# SPDX-License-Identifier: Apache-2.0
"""Every form of sending, and what happens when a broker does not take it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import sprocketmq as rmq
from sprocketmq.broker import NameServer
from sprocketmq.testing import SENDS
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command


def test_a_sent_message_is_stored_as_it_was_given(rocketmq, producer):
    rocketmq.create_topic("flights", queues=4)
    message = rmq.Message("flights", b"body", tags="UA", keys=["N14228", "UA1545"], properties={"year": "2013"}, flag=7)

    result = producer.send(message)

    (stored,) = rocketmq.messages("flights")
    assert result.status is rmq.SendStatus.SEND_OK
    assert (stored.body, stored.tags, stored.keys, stored.flag) == (b"body", "UA", ["N14228", "UA1545"], 7)
    assert stored.properties["year"] == "2013"
    assert stored.message_id == result.message_id
    assert stored.offset_message_id == result.offset_message_id
    assert (result.message_queue.topic, result.message_queue.broker_name) == ("flights", "broker-a")
    assert (result.message_queue.queue_id, result.queue_offset) == (stored.queue_id, stored.queue_offset)
    assert stored.born_timestamp_ms == rocketmq.clock.now_ms()


def test_a_queue_or_a_selector_decides(rocketmq, producer):
    rocketmq.create_topic("flights", queues=4)
    queue = rmq.MessageQueue("flights", "broker-a", 3)
    assert producer.send(rmq.Message("flights", b"x"), queue=queue).message_queue == queue
    assert producer.send(rmq.Message("flights", b"x"), selector=lambda queues, m: queues[2]).message_queue.queue_id == 2
    with pytest.raises(rmq.ConfigurationError):
        producer.send(rmq.Message("flights", b"x"), selector=lambda queues, m: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(rmq.ConfigurationError):
        producer.send(rmq.Message("flights", b"x"), queue=queue, sharding_key="k")


def test_a_selector_of_other_parameters_is_named_and_what_one_raises_is_its_own(rocketmq, producer):
    rocketmq.create_topic("flights", queues=4)
    message = rmq.Message("flights", b"x")
    with pytest.raises(rmq.ConfigurationError, match=r"selector is .*\(queues\), a function of \(queues, message\) is"):
        producer.send(message, selector=lambda queues: queues[0])  # type: ignore[arg-type, misc]
    with pytest.raises(TypeError, match="unsupported operand"):
        producer.send(message, selector=lambda queues, sent: queues[1 + "x"])  # type: ignore[operator]
    assert rocketmq.messages("flights") == []


def test_a_batch_is_stored_message_by_message_in_one_queue(rocketmq, producer):
    rocketmq.create_topic("flights", queues=4)
    result = producer.send_batch([rmq.Message("flights", b"%d" % n, tags="UA") for n in range(5)])
    stored = rocketmq.messages("flights")
    assert [message.body for message in stored] == [b"0", b"1", b"2", b"3", b"4"]
    assert [message.queue_offset for message in stored] == [0, 1, 2, 3, 4]
    assert ",".join(message.message_id for message in stored) == result.message_id


def test_send_oneway_and_send_async_arrive(rocketmq, producer):
    producer.send_oneway(rmq.Message("flights", b"oneway"))
    futures = [producer.send_async(rmq.Message("flights", b"async")) for _ in range(20)]
    assert {future.result(10).status for future in futures} == {rmq.SendStatus.SEND_OK}
    rocketmq.wait_until(lambda: len(rocketmq.messages("flights")) == 21)


def test_a_large_body_travels_compressed_and_a_small_one_does_not(rocketmq, producer):
    producer.send(rmq.Message("flights", b"a" * 4095))
    producer.send(rmq.Message("flights", b"a" * 4096))
    small, large = rocketmq.messages("flights")
    assert small.store_size_bytes > 4095
    assert large.store_size_bytes < 1000
    assert large.body == b"a" * 4096


@pytest.mark.rocketmq(autoCreateTopicEnable=False)
def test_a_topic_nobody_creates_is_refused_in_one_sentence(producer):
    with pytest.raises(rmq.TopicNotExist):
        producer.send(rmq.Message("new-topic", b"x"))


def test_without_a_broker_the_error_does_not_say_to_create_the_topic():
    with (
        NameServer(host="127.0.0.1", port=0) as namesrv,
        rmq.Producer("ops", namesrv_addr=namesrv.address) as producer,
        pytest.raises(rmq.TopicNotExist, match=f"no broker is registered at name server {namesrv.address}") as raised,
    ):
        producer.send(rmq.Message("flights", b"x"))
    assert "create" not in str(raised.value)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (rmq.Message("fli ghts", b"x"), "characters that are not allowed"),
        (rmq.Message("", b"x"), "1 to 127 characters"),
        (rmq.Message("t" * 128, b"x"), "at most 127"),
        (rmq.Message("flights", b""), "is empty"),
        (rmq.Message("flights", b"x" * (4 * 1024 * 1024 + 1)), "at most 4194304"),
        (rmq.Message("SCHEDULE_TOPIC_XXXX", b"x"), "belongs to the broker"),
        ("text", "a sprocketmq.Message is needed"),
    ],
)
def test_a_bad_message_is_refused_before_any_io(producer, message, sentence):
    with pytest.raises(rmq.ConfigurationError, match=sentence):
        producer.send(message)


@pytest.mark.parametrize("fails_by", ["refusal", "lost connection"])
@pytest.mark.parametrize("how", ["send", "send_async", "AsyncProducer.send"])
def test_a_failed_send_is_tried_twice_more_at_once_and_each_time_at_another_broker(
    rocketmq, admin, second_broker, producer, how, fails_by
):
    admin.create_topic("flights", queues=2)
    asked: list[str] = []

    def is_noted(command: Command) -> bool:
        asked.append(command.ext_fields["n"])  # bname
        return True

    async def send_on_a_loop(message: rmq.Message) -> rmq.SendResult:
        async with rocketmq.async_producer("loop") as on_a_loop:
            return await on_a_loop.send(message)

    if fails_by == "refusal":
        rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, times=None, when=is_noted)
    else:
        rocketmq.faults.close_connection(SENDS, times=None, when=is_noted)
    message = rmq.Message("flights", b"x")
    send: dict[str, Callable[[], object]] = {
        "send": lambda: producer.send(message),
        "send_async": lambda: producer.send_async(message).result(20),
        "AsyncProducer.send": lambda: asyncio.run(asyncio.wait_for(send_on_a_loop(message), 20)),
    }
    # The clock stands still: a try that waits would never be made.
    with pytest.raises(rmq.RemoteError if fails_by == "refusal" else rmq.NetworkError):
        send[how]()
    first, second, third = asked
    assert first == third
    assert {first, second} == {"broker-a", "broker-b"}


def test_a_broker_that_went_down_is_passed_by(rocketmq, admin, second_broker, producer):
    admin.create_topic("flights", queues=2)
    assert {producer.send(rmq.Message("flights", b"x")).message_queue.broker_name for _ in range(4)} == {
        "broker-a",
        "broker-b",
    }
    second_broker.stop()
    assert {producer.send(rmq.Message("flights", b"x")).message_queue.broker_name for _ in range(4)} == {"broker-a"}


def test_a_chosen_queue_is_not_replaced_by_another(rocketmq, admin, second_broker, producer):
    admin.create_topic("flights", queues=2)
    fault = rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, times=1)
    with pytest.raises(rmq.RemoteError, match="code 2"):
        producer.send(rmq.Message("flights", b"x"), sharding_key="k")
    assert fault.hits == 1


def test_a_code_that_no_other_broker_would_answer_differently_is_not_retried(rocketmq, producer):
    rocketmq.create_topic("flights", queues=2)
    fault = rocketmq.faults.fail(SENDS, ResponseCode.MESSAGE_ILLEGAL, "no", times=3)
    with pytest.raises(rmq.RemoteError, match="code 13"):
        producer.send(rmq.Message("flights", b"x"))
    assert fault.hits == 1


def test_a_closed_port_and_an_unknown_host_are_named():
    for address, sentence in (("127.0.0.1:1", "127.0.0.1:1"), ("no-such-host.invalid:9876", "no-such-host.invalid")):
        with rmq.Producer("ops", namesrv_addr=address) as producer, pytest.raises(rmq.ConnectFailed, match=sentence):
            producer.send(rmq.Message("flights", b"x"))


def test_a_producer_that_is_not_started_says_so(rocketmq):
    with pytest.raises(rmq.ClosedError):
        rocketmq.producer("ops").send(rmq.Message("flights", b"x"))


def test_two_producers_of_one_group_need_two_instances(rocketmq):
    with (
        rocketmq.producer("ops", instance_name="one"),
        pytest.raises(rmq.ConfigurationError),
    ):
        rocketmq.producer("ops", instance_name="one").start()
    with rocketmq.producer("ops"), rocketmq.producer("ops"):
        pass
