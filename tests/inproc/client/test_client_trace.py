# SPDX-License-Identifier: Apache-2.0
"""Message trace end to end: what stands in the trace topic after sends and listener calls."""

from __future__ import annotations

from typing import Any

import pytest
from recorder import Recorder, send_all

import sprocketmq as rmq
from sprocketmq.client.hooks import EndTransactionContext
from sprocketmq.core.resource_names import TRACE_TOPIC
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.trace import ConsumeReturnType, MessageType, TraceRecord, TraceType, decode_trace


def stored(rocketmq: EmbeddedRocketMQ, topic: str = TRACE_TOPIC) -> list[tuple[rmq.MessageExt, list[TraceRecord]]]:
    """The messages of the trace topic and the records in them."""
    return [(message, decode_trace(message.body)) for message in rocketmq.messages(topic)]


def records(rocketmq: EmbeddedRocketMQ, topic: str = TRACE_TOPIC) -> list[TraceRecord]:
    return [record for _, held in stored(rocketmq, topic) for record in held]


def test_each_message_has_a_record_that_is_found_by_its_id_and_keys(rocketmq):
    with rocketmq.producer("ops", enable_trace=True) as producer:
        sent = producer.send(rmq.Message("flights", b"UA1", tags="UA", keys=["k1", "k2"]))
        batch = producer.send_batch([rmq.Message("flights", b"UA2"), rmq.Message("flights", b"UA3")])
        address = rocketmq.broker_addr
    ((message, held),) = stored(rocketmq)  # one trace message: all three left together, at the end
    first, *of_batch = held
    assert (first.trace_type, first.group, first.topic, first.success) == (TraceType.PUB, "ops", "flights", True)
    assert (first.message_id, first.tags, first.keys) == (sent.message_id, "UA", "k1 k2")
    assert (first.store_host, first.body_length, first.region_id) == (address, 3, "DefaultRegion")
    assert first.offset_message_id == sent.offset_message_id
    assert [record.message_id for record in of_batch] == batch.message_id.split(",")
    assert set(message.keys) == {"k1", "k2", *(record.message_id for record in held)}


@pytest.mark.parametrize("kind", ["message", "orderly"])
def test_a_listener_call_has_two_records_that_belong_together(rocketmq, consumers, producer, kind):
    def consume(messages: Any, context: Any) -> rmq.ConsumeOrderlyStatus:
        seen(messages[0])
        return rmq.ConsumeOrderlyStatus.SUCCESS

    seen = Recorder()
    send_all(producer, ["UA1"])
    consumer = consumers(seen if kind == "message" else consume, kind=kind, enable_trace=True)
    rocketmq.wait_until(lambda: len(seen) == 1)
    consumer.shutdown()
    before, after = records(rocketmq)
    assert (before.trace_type, after.trace_type) == (TraceType.SUB_BEFORE, TraceType.SUB_AFTER)
    assert before.request_id == after.request_id != ""
    assert before.message_id == after.message_id == seen.messages[0].message_id
    assert (before.group, after.group) == ("delays", "delays")
    assert (after.success, after.context_code) == (True, ConsumeReturnType.SUCCESS)


def test_a_failed_listener_call_says_how_it_failed(rocketmq, consumers, producer):
    def fail(message: rmq.MessageExt) -> None:
        raise ValueError("no")

    seen = Recorder(fail)
    send_all(producer, ["UA1"])
    consumer = consumers(seen, enable_trace=True)
    rocketmq.wait_until(lambda: len(seen) == 1)
    consumer.shutdown()
    _, after = records(rocketmq)
    assert (after.success, after.context_code) == (False, ConsumeReturnType.EXCEPTION)


def test_the_ways_in_which_a_call_ends_have_the_ordinals_of_java():
    assert {one.name: one.value for one in ConsumeReturnType} == {
        "SUCCESS": 0, "TIME_OUT": 1, "EXCEPTION": 2, "RETURN_NULL": 3, "FAILED": 4,
    }  # fmt: skip


def test_ten_records_leave_at_once_and_fewer_after_five_seconds(rocketmq):
    with rocketmq.producer("ops", enable_trace=True, trace_topic="traces") as producer:
        send_all(producer, [str(number) for number in range(10)])
        rocketmq.wait_until(lambda: len(stored(rocketmq, "traces")) == 1)
        send_all(producer, ["later"])
        rocketmq.advance(4_000)
        assert len(stored(rocketmq, "traces")) == 1
        rocketmq.advance_until(lambda: len(stored(rocketmq, "traces")) == 2)
        assert len(records(rocketmq, "traces")) == 11


def test_the_trace_topic_itself_is_not_traced(rocketmq, consumers):
    seen = Recorder()
    with rocketmq.producer("ops", enable_trace=True) as producer:
        send_all(producer, ["UA1"])
    consumer = consumers(seen, topic=TRACE_TOPIC, enable_trace=True)
    rocketmq.wait_until(lambda: len(seen) == 1)
    consumer.shutdown()
    assert len(records(rocketmq)) == 1


def test_a_trace_that_cannot_be_stored_changes_nothing(rocketmq, caplog):
    def of_trace(command: Any) -> bool:
        return bool(command.ext_fields.get("b") == TRACE_TOPIC)

    rocketmq.faults.fail(RequestCode.SEND_MESSAGE_V2, ResponseCode.NO_PERMISSION, times=None, when=of_trace)
    with rocketmq.producer("ops", enable_trace=True) as producer:
        assert producer.send(rmq.Message("flights", b"UA1")).status is rmq.SendStatus.SEND_OK
    assert "1 records could not be stored" in caplog.text
    assert records(rocketmq) == []


def test_what_comes_too_fast_is_dropped_and_counted(rocketmq, caplog):
    messages = [rmq.Message("flights", b"x") for _ in range(2_050)]
    with rocketmq.producer("ops", enable_trace=True) as producer:
        producer.send_batch(messages)
    assert "2 records were dropped" in caplog.text
    first = {message.message_id for message in rocketmq.messages("flights")[:2_048]}  # the queue's bound in Java, too
    assert {record.message_id for record in records(rocketmq)} == first


def test_large_traces_are_cut_into_messages_that_fit(rocketmq, monkeypatch):
    monkeypatch.setattr("sprocketmq.client.observe.trace._MAX_BYTES", 500)
    with rocketmq.producer("ops", enable_trace=True, trace_msg_batch_num=20) as producer:
        producer.send_batch([rmq.Message("flights", b"x") for _ in range(12)])
    messages = stored(rocketmq)
    assert len(messages) > 2
    assert all(len(message.body) <= 500 for message, _ in messages)
    assert sum(len(held) for _, held in messages) == 12


def test_the_cloud_has_a_topic_per_region(rocketmq):
    with rocketmq.producer("ops", enable_trace=True, access_channel="CLOUD") as producer:
        send_all(producer, ["UA1"])
    assert len(records(rocketmq, "rmq_sys_TRACE_DATA_DefaultRegion")) == 1


def test_a_producer_that_starts_again_traces_once(rocketmq):
    producer = rocketmq.producer("ops", enable_trace=True)
    for _ in range(2):
        with producer:
            send_all(producer, ["UA1"])
    assert len(records(rocketmq)) == 2


def test_the_end_of_a_transaction_is_traced_with_who_asked(rocketmq):
    states = rmq.LocalTransactionState
    checked: list[rmq.MessageExt] = []

    def check(message: rmq.MessageExt) -> rmq.LocalTransactionState:
        checked.append(message)
        return states.ROLLBACK_MESSAGE

    ended: list[EndTransactionContext] = []

    class Hook:
        def end_transaction(self, context: EndTransactionContext) -> None:
            ended.append(context)

    producer = rmq.TransactionProducer(
        "ops", check=check, namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock, enable_trace=True
    )
    producer.add_hook(Hook())
    with producer:
        yes = producer.send_in_transaction(
            rmq.Message("flights", b"yes", keys="k"), execute=lambda message: states.COMMIT_MESSAGE
        )
        maybe = producer.send_in_transaction(rmq.Message("flights", b"no"), execute=lambda message: states.UNKNOWN)
        rocketmq.advance_until(lambda: len(ended) == 3)
    assert [(one.message_id, one.state, one.from_transaction_check) for one in ended] == [
        (yes.message_id, states.COMMIT_MESSAGE, False),
        (maybe.message_id, states.UNKNOWN, False),
        (maybe.message_id, states.ROLLBACK_MESSAGE, True),
    ]
    assert {one.broker_address for one in ended} == {rocketmq.broker_addr}
    found = [record for record in records(rocketmq) if record.trace_type is TraceType.END_TRANSACTION]
    assert {(one.message_id, one.transaction_state, one.from_transaction_check, one.keys) for one in found} == {
        (yes.message_id, "COMMIT_MESSAGE", False, "k"),
        (maybe.message_id, "UNKNOW", False, None),
        (maybe.message_id, "ROLLBACK_MESSAGE", True, None),
    }
    assert {(one.topic, one.group) for one in found} == {("flights", "ops")}
    halves = [record for record in records(rocketmq) if record.trace_type is TraceType.PUB]
    assert {one.message_type for one in halves} == {MessageType.TRANSACTION_HALF}


def test_an_administrator_reads_a_messages_trace(rocketmq, admin, consumers, producer):
    seen = Recorder()
    with rocketmq.producer("traced", enable_trace=True) as traced:
        send_all(traced, ["other"])
        sent = traced.send(rmq.Message("flights", b"UA1"))
    consumer = consumers(seen, enable_trace=True)
    rocketmq.wait_until(lambda: len(seen) == 2)
    consumer.shutdown()
    rocketmq.wait_until(lambda: len(admin.message_trace(sent.message_id)) == 3)
    kinds = [record.trace_type.value for record in admin.message_trace(sent.message_id)]
    assert kinds == ["Pub", "SubBefore", "SubAfter"]
    assert admin.message_trace("0" * 32) == []
    with pytest.raises(rmq.TopicNotExist):
        admin.message_trace(sent.message_id, trace_topic="no-traces")


def test_traces_have_the_names_without_their_namespace(rocketmq, consumers):
    seen = Recorder()
    with rocketmq.producer("ops", namespace="tenant", enable_trace=True) as producer:
        send_all(producer, ["UA1"])
    consumer = consumers(seen, namespace="tenant", enable_trace=True)
    rocketmq.wait_until(lambda: len(seen) == 1)
    consumer.shutdown()
    found = records(rocketmq)
    assert {(record.trace_type, record.group) for record in found} == {
        (TraceType.PUB, "ops"),
        (TraceType.SUB_BEFORE, "delays"),
        (TraceType.SUB_AFTER, "delays"),
    }
    assert next(record.topic for record in found if record.trace_type is TraceType.PUB) == "flights"
