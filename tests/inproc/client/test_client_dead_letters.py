# SPDX-License-Identifier: Apache-2.0
"""Dead letters: read without a trace, narrowed down, replayed as they were first sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from recorder import Consumers, Recorder, send_all

import sprocketmq as rmq
from sprocketmq.client.dead_letters.dead_letter_message import replay_copy
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode


@pytest.fixture
def letters(rocketmq: EmbeddedRocketMQ) -> Iterator[rmq.DeadLetters]:
    with rmq.DeadLetters("delays", namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock) as reader:
        yield reader


def _refuse(message: rmq.MessageExt) -> None:
    raise rmq.DeadLetter("no such flight")


def _kill(rocketmq: EmbeddedRocketMQ, consumers: Consumers, count: int) -> None:
    """A consumer that dead-letters everything, until ``count`` letters are there."""
    consumer = consumers(Recorder(_refuse))
    rocketmq.wait_until(lambda: len(rocketmq.messages("%DLQ%delays")) == count)
    consumer.shutdown()


def test_letters_are_read_with_where_they_came_from_and_stay(rocketmq, admin, producer, consumers, letters):
    admin.create_group("delays")
    assert (letters.topic, letters.count(), list(letters.read())) == ("%DLQ%delays", 0, [])
    sent = [
        producer.send(rmq.Message("flights", str(n).encode(), tags="UA", keys=[f"k{n}"], properties={"year": "2013"}))
        for n in range(70)  # more than one pull
    ]
    _kill(rocketmq, consumers, 70)
    found = list(letters.read())
    assert sorted(letter.message_id for letter in found) == sorted(result.message_id for result in sent)
    first = letters.get(sent[0].message_id)
    assert (first.origin_topic, first.deliveries, first.message.tags) == ("flights", 1, "UA")
    assert (first.message.keys, first.message.properties["year"]) == (["k0"], "2013")
    assert first.origin_offset_message_id == sent[0].offset_message_id
    assert letters.get(sent[0].offset_message_id).message_id == first.message_id
    assert letters.count() == 70
    assert rocketmq.consumer_offset("delays", "%DLQ%delays") == {}  # no progress was written
    with pytest.raises(rmq.ConfigurationError, match="has no dead letter with the id 'AB'"):
        letters.get("AB")


def test_conditions_narrow_a_read_down(rocketmq, producer, consumers, letters):
    producer.send(rmq.Message("flights", b"1", tags="UA", keys="a"))
    producer.send(rmq.Message("flights", b"2", tags="DL", keys=["a", "b"]))
    _kill(rocketmq, consumers, 2)
    rocketmq.advance(10_000)
    between_ms = rocketmq.clock.now_ms()
    rocketmq.advance(10_000)
    producer.send(rmq.Message("flights", b"3", tags="UA", keys="b"))
    _kill(rocketmq, consumers, 3)

    def bodies(**conditions: Any) -> set[bytes]:
        return {letter.message.body for letter in letters.read(**conditions)}

    assert bodies(key="a") == {b"1", b"2"}
    assert bodies(tags="UA") == {b"1", b"3"}
    assert bodies(tags="UA", key="b") == {b"3"}
    assert bodies(topic="weather") == set()
    assert bodies(since_ms=between_ms) == {b"3"}
    assert bodies(until_ms=between_ms) == {b"1", b"2"}
    queue = rmq.MessageQueue("%DLQ%delays", "broker-a", 0)
    assert bodies(start_offsets={queue: 2}) == {b"3"}


def test_a_replayed_letter_is_the_message_that_was_first_sent(rocketmq, producer, consumers, letters):
    result = producer.send(
        rmq.Message("flights", b"x" * 5_000, tags="UA", keys=["k", "l"], properties={"year": "2013"}, flag=7)
    )
    _kill(rocketmq, consumers, 1)
    (letter,) = letters.read()
    again = letters.replay(letter)
    assert again.message_id == result.message_id
    recorder = Recorder()
    consumers(recorder)
    rocketmq.wait_until(lambda: len(recorder) == 1)
    (message,) = recorder.messages
    assert (message.topic, message.body, message.flag) == ("flights", b"x" * 5_000, 7)
    assert (message.tags, message.keys, message.properties["year"]) == ("UA", ["k", "l"], "2013")
    assert (message.message_id, message.reconsume_times) == (result.message_id, 0)
    first = next(stored for stored in rocketmq.messages("flights") if stored.queue_offset == 0)
    # A new life: nothing of the old one is left in it. What the broker adds to each message it adds anew.
    assert message.properties.keys() - {"MIN_OFFSET", "MAX_OFFSET", "REPLAY_ID"} == first.properties.keys()
    assert letters.count() == 1


def test_a_replay_goes_to_the_queue_of_its_sharding_key(rocketmq, producer, consumers, letters):
    rocketmq.create_topic("flights", queues=8)
    result = producer.send(rmq.Message("flights", b"x"), sharding_key="N14228")
    _kill(rocketmq, consumers, 1)
    (letter,) = letters.read()
    assert {letters.replay(letter).message_queue for _ in range(3)} == {result.message_queue}


def test_replay_all_leaves_out_what_dies_again_meanwhile_and_can_go_on_from_there(
    rocketmq, producer, consumers, letters
):
    rocketmq.create_topic("flights", queues=2)
    send_all(producer, ["1", "2", "3"])
    consumers(Recorder(_refuse))  # stays: what is replayed dies again at once
    rocketmq.wait_until(lambda: letters.count() == 3)
    report = letters.replay_all()
    assert (len(report.replayed), report.error) == (3, None)
    assert report.next_offsets == {rmq.MessageQueue("%DLQ%delays", "broker-a", 0): 3}
    rocketmq.wait_until(lambda: letters.count() == 6)
    assert len(list(letters.read(start_offsets=report.next_offsets))) == 3
    to_another = letters.replay_all(to_topic="weather", start_offsets=report.next_offsets)
    assert len(rocketmq.messages("weather")) == len(to_another.replayed) == 3


def test_a_read_ends_where_the_topic_ended_when_it_began(rocketmq, producer, consumers, letters):
    send_all(producer, [str(n) for n in range(40)])  # more than one pull brings
    consumers(Recorder(_refuse))
    rocketmq.wait_until(lambda: letters.count() == 40)
    reading = letters.read()
    found = [next(reading)]
    send_all(producer, [str(n) for n in range(40)])
    rocketmq.wait_until(lambda: letters.count() == 80)
    found += reading
    assert [letter.message.queue_offset for letter in found] == list(range(40))


def test_replay_all_stops_at_the_first_that_fails_and_says_which(rocketmq, producer, consumers, letters):
    for n in range(3):
        producer.send(rmq.Message("flights", b"x", keys=str(n)))
    _kill(rocketmq, consumers, 3)
    dead = [letter.message_id for letter in letters.read()]
    rocketmq.faults.fail(
        RequestCode.SEND_MESSAGE_V2,
        ResponseCode.MESSAGE_ILLEGAL,
        times=1,
        when=lambda command: dead[1] in command.ext_fields["i"],
    )
    report = letters.replay_all()
    assert [result.message_id for result in report.replayed] == dead[:1]
    assert report.failed is not None
    assert report.failed.message_id == dead[1]
    assert isinstance(report.error, rmq.RemoteError)
    rest = letters.replay_all(start_offsets=report.next_offsets)
    assert [result.message_id for result in rest.replayed] == dead[1:]


def test_letters_of_all_brokers_are_read(rocketmq, admin, second_broker, producer, consumers, letters):
    admin.create_topic("flights", queues=2)
    send_all(producer, [str(n) for n in range(12)])
    consumer = consumers(Recorder(_refuse))
    rocketmq.advance_until(lambda: letters.count() == 12)
    consumer.shutdown()
    found = list(letters.read())
    assert {letter.message.broker_name for letter in found} == {"broker-a", "broker-b"}
    assert sorted(int(letter.message.body) for letter in found) == list(range(12))


def test_letters_of_a_group_that_was_switched_off_are_still_read(rocketmq, admin, producer, consumers, letters):
    send_all(producer, ["1"])
    _kill(rocketmq, consumers, 1)
    admin.create_group("delays", consume_enable=False)
    assert [letter.message.body for letter in letters.read()] == [b"1"]


def test_a_topic_that_cannot_be_read_is_reported_with_what_to_do(rocketmq, admin, producer, consumers, letters):
    send_all(producer, ["1"])
    _kill(rocketmq, consumers, 1)
    admin.create_topic("%DLQ%delays", queues=1, perm=2)
    with pytest.raises(rmq.ConfigurationError, match="updateTopicPerm -t %DLQ%delays -p 6"):
        letters.count()
    admin.create_topic("%DLQ%delays", queues=1, perm=6)
    assert letters.count() == 1


def test_a_letter_that_does_not_say_where_it_came_from_needs_a_topic(rocketmq, producer, letters):
    rocketmq.create_topic("%DLQ%delays", queues=1)
    producer.send(rmq.Message("%DLQ%delays", b"by hand"))
    (letter,) = letters.read()
    assert letter.origin_topic is None
    with pytest.raises(rmq.ConfigurationError, match="pass topic= to replay it"):
        letters.replay(letter)
    assert letters.replay(letter, topic="flights").message_id == letter.message_id


def test_nothing_of_retry_delay_timer_transaction_or_broker_is_replayed():
    letter = rmq.MessageExt("%DLQ%delays", b"x", tags="UA", keys="k", properties={"year": "2013"}, flag=3)
    kept = dict(letter.properties, UNIQ_KEY="AB" * 16, __SHARDINGKEY="s", CORRELATION_ID="c")
    gone = dict.fromkeys(
        (
            *("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "RETRY_REASON", "WAIT"),
            *("DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "DELAY", "REAL_TOPIC", "REAL_QID", "REPLAY_ID"),
            *("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS"),
            *("TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_DEL_UNIQKEY", "TIMER_DELAY_LEVEL"),
            *("TRAN_MSG", "PGROUP", "__transactionId__", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"),
            *("CHECK_IMMUNITY_TIME_IN_SECONDS", "MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME", "1ST_POP_TIME"),
            *("POP_CK", "POP_CK_OFFSET", "INNER_NUM", "INNER_BASE", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"),
            *(
                "CLUSTER",
                "MSG_REGION",
                "TRACE_ON",
                "TRACE_CONTEXT",
                "DUP_INFO",
                "PROPERTY_FORWARD_QUEUE_ID",
                "REDIRECT",
            ),
            *("BORN_TIMESTAMP", "__BORNHOST", "__CRC32#"),
            *("__RMQ.TRANSIENT.TOPIC_SYS_FLAG", "__RMQ.TRANSIENT.GROUP_SYS_FLAG", "SPARK_ATTEMPT", "SPARK_LEDGER"),
            *("SPARK_QUERY_ID", "SPARK_BATCH_ID", "SPARK_PARTITION", "SPARK_SEQUENCE", "SPARK_TRY"),
        ),
        "1",
    )
    letter.properties.update({**kept, **gone})
    copy = replay_copy(letter, "flights", "second life")
    assert (copy.topic, copy.body, copy.flag, copy.properties) == (
        "flights",
        b"x",
        3,
        {**kept, "REPLAY_ID": "second life"},
    )


def test_letters_of_a_namespace_are_read_and_replayed_under_the_users_names(rocketmq, consumers):
    with rocketmq.producer("ops", namespace="tower") as producer:
        result = producer.send(rmq.Message("flights", b"x"))
    recorder = Recorder(lambda message: _refuse(message) if message.reconsume_times == 0 else None)
    consumer = consumers(recorder, namespace="tower")
    rocketmq.advance_until(lambda: len(rocketmq.messages("%DLQ%tower%delays")) == 1)
    consumer.shutdown()
    with rmq.DeadLetters("delays", namesrv_addr=rocketmq.namesrv_addr, namespace="tower") as letters:
        (letter,) = letters.read(topic="flights")
        assert (letter.origin_topic, letter.message_id) == ("flights", result.message_id)
        letters.replay(letter)
    assert [message.message_id for message in rocketmq.messages("tower%flights")] == [result.message_id] * 2
