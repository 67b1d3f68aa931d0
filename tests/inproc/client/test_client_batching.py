# SPDX-License-Identifier: Apache-2.0
"""Automatic batching: what travels together, each message's own result, order, failures, routes that change."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from recorder import noted

import sprocketmq as rmq
from sprocketmq.client.produce.batch_accumulator import BatchAccumulator
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import SENDS, EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.hashing import java_hash
from sprocketmq.wire.records import properties as props


@pytest.fixture
def batching(rocketmq: EmbeddedRocketMQ) -> Iterator[rmq.Producer]:
    with rocketmq.producer("ops", auto_batch=True) as producer:
        yield producer


def requests(rocketmq: EmbeddedRocketMQ) -> list[Command]:
    """Every send from now on; none is touched."""
    return noted(rocketmq, SENDS, copy.copy)  # a broker lets go of the fields of a request that waits


def messages(count: int, **options: Any) -> list[rmq.Message]:
    return [rmq.Message("flights", b"%d" % number, **options) for number in range(count)]


def lingering(producer: rmq.Producer) -> BatchAccumulator:
    batches = producer._async._batches
    assert batches is not None
    return batches


def taken_in(rocketmq: EmbeddedRocketMQ, producer: rmq.Producer) -> None:
    """Time may pass: all that was sent is in a batch, so that none leaves without the rest."""
    rocketmq.wait_until(lambda: not producer._inbox)


def settled(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, futures: list[Future[rmq.SendResult]]
) -> list[rmq.SendResult]:
    taken_in(rocketmq, producer)
    rocketmq.advance_until(lambda: all(future.done() for future in futures), step_ms=10, patience_ms=50)
    return [future.result(0) for future in futures]


def test_sends_that_come_together_travel_together_and_each_has_its_own_result(rocketmq, batching):
    rocketmq.create_topic("flights", queues=2)
    sent = requests(rocketmq)
    results = settled(
        rocketmq, batching, [batching.send_async(message) for message in messages(5, tags="UA", keys="k")]
    )
    assert [command.code for command in sent] == [RequestCode.SEND_BATCH_MESSAGE]
    stored = rocketmq.messages("flights")
    assert [message.body for message in stored] == [b"0", b"1", b"2", b"3", b"4"]
    assert [message.message_id for message in stored] == [result.message_id for result in results]
    assert [message.offset_message_id for message in stored] == [result.offset_message_id for result in results]
    assert [message.queue_offset for message in stored] == [result.queue_offset for result in results]
    assert {message.queue_id for message in stored} == {result.message_queue.queue_id for result in results}
    assert {(message.tags, *message.keys) for message in stored} == {("UA", "k")}


def test_a_message_lingers_no_longer_than_it_may_and_a_full_batch_not_at_all(rocketmq):
    with rocketmq.producer("ops", auto_batch=True, batch_max_delay_ms=50, batch_max_bytes=2_000) as producer:
        sent = requests(rocketmq)
        alone = producer.send_async(rmq.Message("flights", b"x"))
        rocketmq.wait_until(lambda: lingering(producer)._timer is not None)
        rocketmq.advance(49)
        assert (sent, alone.done()) == ([], False)
        rocketmq.advance(1)
        assert alone.result(10).queue_offset == 0
        assert sent[0].code == RequestCode.SEND_MESSAGE_V2, "a message without company is an ordinary send"
        full = [producer.send_async(rmq.Message("flights", b"x" * 990)) for _ in range(2)]
        assert [future.result(10).queue_offset for future in full] == [1, 2]


def test_a_key_keeps_its_queue_and_its_order_while_batches_are_under_way(rocketmq):
    rocketmq.create_topic("flights", queues=5)
    with rocketmq.producer("ops", auto_batch=True, batch_max_bytes=400) as producer:
        sent = requests(rocketmq)
        futures = [
            producer.send_async(message, sharding_key=f"N{number % 3}") for number, message in enumerate(messages(60))
        ]
        settled(rocketmq, producer, futures)
    stored = rocketmq.messages("flights")
    for key in range(3):
        of_key = [message for message in stored if int(message.body) % 3 == key]
        assert {message.queue_id for message in of_key} == {abs(java_hash(f"N{key}")) % 5}
        assert {message.properties[props.SHARDING_KEY] for message in of_key} == {f"N{key}"}
        assert [int(message.body) for message in of_key] == list(range(key, 60, 3))
    assert 3 < len(sent) < 60


def test_a_selected_and_a_given_queue_are_kept(rocketmq, batching):
    rocketmq.create_topic("flights", queues=4)
    given = [batching.send_async(message, queue=rmq.MessageQueue("flights", "broker-a", 3)) for message in messages(3)]
    chosen = [batching.send_async(message, selector=lambda queues, sent: queues[1]) for message in messages(3)]
    bad = batching.send_async(rmq.Message("flights", b"x"), selector=lambda queues, sent: None)
    assert {result.message_queue.queue_id for result in settled(rocketmq, batching, given)} == {3}
    assert {result.message_queue.queue_id for result in settled(rocketmq, batching, chosen)} == {1}
    with pytest.raises(rmq.ConfigurationError):
        bad.result(10)


def test_a_batch_that_fails_fails_for_its_messages_only(rocketmq, batching):
    rocketmq.faults.fail(SENDS, ResponseCode.MESSAGE_ILLEGAL, "no", times=1)
    bad = [batching.send_async(message) for message in messages(3)]
    taken_in(rocketmq, batching)
    rocketmq.advance_until(lambda: all(future.done() for future in bad), step_ms=10, patience_ms=50)
    for future in bad:
        with pytest.raises(rmq.RemoteError, match="code 13"):
            future.result(0)
    assert len(settled(rocketmq, batching, [batching.send_async(message) for message in messages(3)])) == 3
    assert len(rocketmq.messages("flights")) == 3
    refused = batching.send_async(rmq.Message("flights", b""))
    with pytest.raises(rmq.ConfigurationError):
        refused.result(10)


def test_what_is_wrong_about_one_message_fails_it_alone_and_later_changes_of_a_message_change_nothing(
    rocketmq, batching
):
    sent = messages(5, tags="UA")
    sent[1].properties["notes"] = "x" * 40_000
    sent[2].body = b""
    sent[3].flag = 7
    futures = [batching.send_async(message) for message in sent]
    taken_in(rocketmq, batching)
    sent[4].body, sent[4].tags = b"changed", "DL"
    rocketmq.advance_until(lambda: all(future.done() for future in futures), step_ms=10, patience_ms=50)
    with pytest.raises(rmq.ConfigurationError):
        futures[1].result(0)
    with pytest.raises(rmq.ConfigurationError):
        futures[2].result(0)
    assert [(message.body, message.tags, message.flag) for message in rocketmq.messages("flights")] == [
        (b"0", "UA", 0),
        (b"3", "UA", 7),
        (b"4", "UA", 0),
    ]


@pytest.mark.parametrize("raised", [LookupError, asyncio.CancelledError])
def test_a_selector_that_raises_fails_its_own_message_and_those_behind_it_are_sent(rocketmq, batching, raised):
    rocketmq.create_topic("flights", queues=2)

    def fails(queues: Sequence[rmq.MessageQueue], message: rmq.Message) -> rmq.MessageQueue:
        raise raised("no queue for it")

    for _ in range(2):  # before its route is known, and after
        bad = batching.send_async(rmq.Message("flights", b"bad"), selector=fails)
        good = batching.send_async(rmq.Message("flights", b"good"))
        assert settled(rocketmq, batching, [good])
        with pytest.raises(raised):
            bad.result(10)
    assert [message.body for message in rocketmq.messages("flights")] == [b"good"] * 2


@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize("waits_for_route", [True, False])
def test_a_send_fails_when_its_task_is_cancelled_and_the_next_one_is_sent(
    rocketmq, batching, waits_for_route, has_begun
):
    """An engine that is closed cancels all tasks, also of a producer that was not shut down, and before their first step."""
    settled(rocketmq, batching, [batching.send_async(rmq.Message("flights", b"first"))])
    topic = "unknown" if waits_for_route else "flights"
    fault = rocketmq.faults.drop(RequestCode.GET_ROUTEINFO_BY_TOPIC if waits_for_route else SENDS, times=None)
    producer = batching._async

    async def send_and_cancel() -> asyncio.Future[rmq.SendResult]:
        sent = producer.send_async(rmq.Message(topic, b"x"), sharding_key="k")
        while not (tasks := lingering(batching)._tasks):
            lingering(batching)._batches.flush()
            lingering(batching)._go()
            await asyncio.sleep(0)
        while has_begun and not fault.hits:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.wait([sent])
        return sent

    cut = batching._engine.run(send_and_cancel())
    assert isinstance(error := cut.exception(), rmq.ClosedError)
    assert ("it was not sent" if waits_for_route else "may have been stored") in str(error)
    assert not lingering(batching)._held
    assert not lingering(batching)._delivering
    fault.remove()
    settled(rocketmq, batching, [batching.send_async(rmq.Message("flights", b"next"), sharding_key="k")])
    assert rocketmq.messages("flights")[-1].body == b"next"


def test_a_send_after_the_engine_was_closed_fails_and_is_not_left_in_the_inbox(rocketmq):
    engine = Engine()
    producer = rmq.Producer("closed", namesrv_addr=rocketmq.namesrv_addr, auto_batch=True, engine=engine)
    producer.start()
    engine.close()
    for _ in range(2):
        with pytest.raises(rmq.ClosedError):
            producer.send_async(rmq.Message("flights", b"late")).result(10)
    assert not producer._inbox
    producer._async._loop = None  # it cannot be shut down any more, and is not to warn of it


def test_a_batch_that_was_answered_is_not_kept(rocketmq, batching):
    for number in range(3):
        topic, body = f"flights{number}", b"x" * (100_000 if number == 1 else 10)
        rocketmq.create_topic(topic, queues=1)
        settled(rocketmq, batching, [batching.send_async(rmq.Message(topic, body)) for _ in range(3)])
    assert not lingering(batching)._open


def test_a_message_that_travels_alone_is_sent_as_it_was_when_it_was_given(rocketmq, batching):
    sent = rmq.Message("flights", b"x" * 5_000, tags="UA", keys="Zürich", flag=7)
    future = batching.send_async(sent)
    taken_in(rocketmq, batching)
    sent.body, sent.tags, sent.flag = b"changed", "DL", 9
    (result,) = settled(rocketmq, batching, [future])
    (stored,) = rocketmq.messages("flights")
    assert (stored.body, stored.tags, stored.keys, stored.flag) == (b"x" * 5_000, "UA", ["Zürich"], 7)
    assert stored.message_id == result.message_id == sent.unique_key


def test_properties_that_somebody_set_and_texts_of_any_language_join_a_batch(rocketmq, batching):
    sent = messages(4, tags="UA")
    sent[1].properties["notes"] = "set"
    sent[2].properties["notes"] = ""
    sent[3].keys = "Köln \U0001f600"
    results = settled(rocketmq, batching, [batching.send_async(message) for message in sent])
    stored = rocketmq.messages("flights")
    assert [message.queue_offset for message in stored] == [0, 1, 2, 3]
    assert [message.properties.get("notes") for message in stored] == [None, "set", None, None]
    assert stored[3].keys == ["Köln", "\U0001f600"]
    assert [message.message_id for message in stored] == [result.message_id for result in results]


def test_what_was_cancelled_before_its_batch_left_is_not_sent(rocketmq):

    async def send() -> list[int]:
        async with rocketmq.async_producer("ops", auto_batch=True) as producer:
            futures = [producer.send_async(message) for message in messages(5)]
            futures[1].cancel()
            futures[4].cancel()
            await producer.flush()
            return [future.result().queue_offset for future in futures if not future.cancelled()]

    assert asyncio.run(send()) == [0, 1, 2]
    assert [message.body for message in rocketmq.messages("flights")] == [b"0", b"2", b"3"]


def test_a_producer_is_used_in_its_own_loop_only(rocketmq):

    async def send() -> None:
        async with rocketmq.async_producer("ops", auto_batch=True) as producer:
            first = producer.send_async(rmq.Message("flights", b"x"))
            with pytest.raises(RuntimeError, match="no running event loop"):
                await asyncio.to_thread(producer.send_async, rmq.Message("flights", b"y"))
            await producer.flush()
            await first

    asyncio.run(send())
    assert [message.body for message in rocketmq.messages("flights")] == [b"x"]


def test_a_message_that_is_sent_again_while_a_batch_is_open_keeps_its_key(rocketmq, batching):
    again = rmq.Message("flights", b"x")
    sent = [again, rmq.Message("flights", b"y"), again, rmq.Message("flights", b"z")]
    results = settled(rocketmq, batching, [batching.send_async(message) for message in sent])
    assert [result.message_id for result in results] == [message.properties[props.UNIQ_KEY] for message in sent]
    assert len({result.message_id for result in results}) == 3
    assert [message.message_id for message in rocketmq.messages("flights")] == [result.message_id for result in results]


def test_hooks_are_shown_every_message_of_a_batch(rocketmq):
    shown: list[list[bytes]] = []

    class Look:
        def before_send(self, context: Any) -> None:
            shown.append([message.body for message in context.messages])

        def after_send(self, context: Any) -> None:
            assert len(context.messages) == len(context.result.message_id.split(","))

    producer = rocketmq.producer("ops", auto_batch=True)
    producer.add_hook(Look())
    with producer:
        settled(rocketmq, producer, [producer.send_async(message) for message in messages(4)])
    assert shown == [[b"0", b"1", b"2", b"3"]]
    assert [message.body for message in rocketmq.messages("flights")] == [b"0", b"1", b"2", b"3"]


def test_more_messages_than_a_block_of_keys_has_go_into_one_batch(rocketmq):
    with rocketmq.producer("ops", auto_batch=True, batch_max_bytes=1024 * 1024) as producer:
        sent = requests(rocketmq)
        results = settled(rocketmq, producer, [producer.send_async(message) for message in messages(600)])
    assert len(sent) == 1
    assert len({result.message_id for result in results}) == 600
    assert [int(message.body) for message in rocketmq.messages("flights")] == list(range(600))


def test_a_refused_batch_goes_to_the_other_broker_as_a_whole(rocketmq, admin, second_broker, batching):
    admin.create_topic("flights", queues=8)
    second_broker.intercept = None
    fault = rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, times=None)  # all tries at broker-a
    for _ in range(16):  # wherever it begins: a batch of the first queues has as many tries as would stay there
        results = settled(rocketmq, batching, [batching.send_async(message) for message in messages(4)])
        (queue,) = {result.message_queue for result in results}
        assert queue.broker_name == "broker-b"
        assert second_broker.store.max_offset("flights", queue.queue_id) % 4 == 0
    assert 0 < fault.hits <= 16, "no batch was tried twice at one broker"


def test_what_cannot_be_batched_is_sent_by_itself_at_once(rocketmq, batching):
    sent = requests(rocketmq)
    batching.send(rmq.Message("flights", b"later"), delay_level=2)
    batching.send(rmq.Message("flights", b"later", delay_level=2))
    batching.send(rmq.Message("%RETRY%delays", b"again"))
    batching.send_batch(messages(2))
    assert [command.code for command in sent] == [*[RequestCode.SEND_MESSAGE_V2] * 3, RequestCode.SEND_BATCH_MESSAGE]


def test_messages_that_may_not_wait_for_the_disk_travel_apart_from_those_that_do(rocketmq, batching):
    sent = requests(rocketmq)
    futures = [batching.send_async(message) for pair in range(2) for message in messages(2, wait_store_msg_ok=not pair)]
    settled(rocketmq, batching, futures)
    assert [props.WAIT in command.ext_fields["i"] for command in sent] == [False, True]


def test_shutdown_sends_what_lingers(rocketmq):
    rocketmq.create_topic("flights", queues=2)
    with rocketmq.producer("ops", auto_batch=True, batch_max_delay_ms=30_000) as producer:
        futures = [producer.send_async(message) for message in messages(3)]
        futures += [producer.send_async(message, sharding_key="N1") for message in messages(3)]
    assert [future.result(0).status for future in futures] == [rmq.SendStatus.SEND_OK] * 6
    assert len(rocketmq.messages("flights")) == 6


def test_a_topic_without_a_route_fails_what_waited_for_it(rocketmq):
    with rocketmq.producer("ops", auto_batch=True, create_topic_key="no-such-topic") as producer:
        keyed = [producer.send_async(rmq.Message("nowhere", b"x"), sharding_key="N1") for _ in range(3)]
        rocketmq.advance_until(lambda: all(future.done() for future in keyed), step_ms=10, patience_ms=50)
        for future in keyed:
            with pytest.raises(rmq.TopicNotExist):
                future.result(0)
        assert not lingering(producer)._held


def test_a_key_that_moves_to_another_queue_takes_its_order_along(rocketmq):
    key = next(f"N{number}" for number in range(100) if abs(java_hash(f"N{number}")) % 4 != 0)
    with rocketmq.producer("ops", auto_batch=True, poll_name_server_interval_ms=1_000) as producer:
        settled(rocketmq, producer, [producer.send_async(rmq.Message("flights", b"0"), sharding_key=key)])
        held = rocketmq.faults.delay(SENDS, 5_000, times=1)  # the old queue's batch is under way for long
        futures = [producer.send_async(rmq.Message("flights", b"1"), sharding_key=key, timeout_ms=60_000)]
        rocketmq.advance_until(lambda: held.hits == 1, step_ms=10, patience_ms=50)
        rocketmq.create_topic("flights", queues=4)
        routes = lingering(producer)._sender.cluster.routes
        rocketmq.advance_until(lambda: len(routes.table.publish_queues("flights")) == 4, step_ms=500, limit_ms=4_000)
        futures += [
            producer.send_async(rmq.Message("flights", b"%d" % number), sharding_key=key) for number in range(2, 6)
        ]
        rocketmq.wait_until(lambda: "flights" in lingering(producer)._held)
        assert [message.body for message in rocketmq.messages("flights")] == [b"0"], "the new queue waits for the old"
        rocketmq.advance(5_000)
        settled(rocketmq, producer, futures)
    stored = sorted(rocketmq.messages("flights"), key=lambda message: message.commit_log_offset)
    assert [message.body for message in stored] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [message.queue_id for message in stored] == [0, 0, *[abs(java_hash(key)) % 4] * 4]


def test_the_async_producer_batches_awaited_sends_too(rocketmq):
    sent = requests(rocketmq)

    async def send() -> list[rmq.SendResult]:
        async with rocketmq.async_producer("ops", auto_batch=True) as producer:
            pending = asyncio.gather(*(producer.send(message) for message in messages(20)))
            await asyncio.sleep(0)  # a batch is open
            refused = producer.send_async(rmq.Message("flights", b"x", properties={"notes": "x" * 40_000}))
            with pytest.raises(rmq.ConfigurationError):
                refused.result()  # its future says it, not the call
            await asyncio.to_thread(
                rocketmq.advance_until, lambda: len(rocketmq.messages("flights")) == 20, step_ms=10, patience_ms=50
            )
            return list(await pending)

    results = asyncio.run(send())
    assert [result.queue_offset for result in results] == list(range(20))
    assert len(sent) == 1
