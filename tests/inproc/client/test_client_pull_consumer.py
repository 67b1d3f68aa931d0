# SPDX-License-Identifier: Apache-2.0
"""Consuming by poll: shared and assigned queues, commit and auto commit, seek."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from interrupts import Interrupted, needs_signals, signal_while_waiting
from recorder import HELD_S, QUEUE, parts_of, send_all

import sprocketmq as rmq
from sprocketmq import MessageQueue
from sprocketmq.testing.faults import PULLS
from sprocketmq.wire.codes import RequestCode

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def _poll_all(consumer: rmq.PullConsumer, count: int) -> list[str]:
    bodies: list[str] = []
    while len(bodies) < count:
        messages = consumer.poll(timeout_ms=30_000)
        assert messages, f"only {len(bodies)} of {count} messages came"
        bodies += [message.body.decode() for message in messages]
    return bodies


def test_poll_gives_every_message_once_and_the_next_poll_commits(rocketmq, producer):
    rocketmq.create_topic("flights", queues=2)
    send_all(producer, [str(n) for n in range(50)])
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        assert sorted(_poll_all(consumer, 50), key=int) == [str(n) for n in range(50)]
        assert consumer.poll(timeout_ms=10) == []
    assert rocketmq.consumer_offset("backfill", "flights") == {0: 25, 1: 25}


def test_a_poll_of_nothing_is_refused(rocketmq):
    with rocketmq.pull_consumer("backfill") as consumer:
        with pytest.raises(rmq.ConfigurationError, match="subscribes to nothing"):
            consumer.poll(timeout_ms=0)
        consumer.subscribe("flights")
        assert consumer.poll(timeout_ms=0) == []


def test_without_auto_commit_nothing_is_done_until_commit(rocketmq, producer):
    send_all(producer, ["0", "1", "2"])
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        assert _poll_all(consumer, 3) == ["0", "1", "2"]
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        assert _poll_all(consumer, 3) == ["0", "1", "2"]
        consumer.commit()
        assert consumer.committed(QUEUE) == 3


def test_assigned_queues_are_read_whatever_the_group_does(rocketmq, producer):
    rocketmq.create_topic("flights", queues=2)
    for n in range(6):
        producer.send(rmq.Message("flights", str(n).encode()), queue=rmq.MessageQueue("flights", "broker-a", n % 2))
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.assign([QUEUE])
        assert consumer.assigned_queues == [QUEUE]
        assert _poll_all(consumer, 3) == ["0", "2", "4"]
        with pytest.raises(rmq.ConfigurationError, match="either subscribes or is assigned"):
            consumer.subscribe("flights")


def test_a_broker_that_loses_progress_gets_it_again_although_no_message_comes(rocketmq, producer):
    send_all(producer, ["0", "1", "2"])
    for expected in (["0", "1", "2"], []):
        with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
            consumer.assign([QUEUE])
            assert _poll_all(consumer, len(expected)) == expected
            if not expected:
                rocketmq.wait_until(lambda consumer=consumer: consumer.positions.get(QUEUE) == 3)
                rocketmq.broker.offsets.commit("backfill", "flights", 0, 1)  # as a power cut may leave it
                rocketmq.clock.advance(10_000)
            consumer.poll(timeout_ms=10)
    assert rocketmq.consumer_offset("backfill", "flights") == {0: 3}


def test_seek_goes_on_elsewhere(rocketmq, producer):
    send_all(producer, ["0", "1", "2", "3"])
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.assign([QUEUE])
        assert _poll_all(consumer, 4) == ["0", "1", "2", "3"]
        consumer.seek(QUEUE, 2)
        assert _poll_all(consumer, 2) == ["2", "3"]
        consumer.seek_to_begin(QUEUE)
        assert _poll_all(consumer, 4) == ["0", "1", "2", "3"]
        consumer.seek_to_end(QUEUE)
        send_all(producer, ["4"])
        assert _poll_all(consumer, 1) == ["4"]
        with pytest.raises(rmq.ConfigurationError, match="is not read by this consumer"):
            consumer.seek(rmq.MessageQueue("flights", "broker-a", 7), 0)


def test_a_consumer_that_never_commits_is_not_stopped_by_flow_control(rocketmq, producer):
    send_all(producer, [str(n) for n in range(40)])
    with rocketmq.pull_consumer(
        "backfill", auto_commit=False, consume_from_where=FIRST, pull_threshold_for_queue=5, consume_max_span=5
    ) as consumer:
        consumer.subscribe("flights")
        assert _poll_all(consumer, 40) == [str(n) for n in range(40)]
        assert consumer.positions == {QUEUE: 40}
    assert rocketmq.consumer_offset("backfill", "flights") == {}


def test_messages_under_work_when_an_exception_leaves_the_block_come_again(rocketmq, producer):
    send_all(producer, ["0", "1", "2"])
    consumer = rocketmq.pull_consumer("backfill", consume_from_where=FIRST)
    consumer.assign([QUEUE])

    def work() -> None:
        with consumer:
            assert len(consumer.poll(1)) == 1
            assert len(consumer.poll(1)) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert rocketmq.consumer_offset("backfill", "flights") == {0: 1}
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as again:
        again.subscribe("flights")
        assert _poll_all(again, 2) == ["1", "2"]


@needs_signals
def test_an_interrupted_poll_has_handed_out_nothing_although_its_messages_came_meanwhile(rocketmq, producer):
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.assign([QUEUE])
        send_all(producer, ["0"])
        assert _poll_all(consumer, 1) == ["0"]

        def interrupt() -> None:
            send_all(producer, ["1", "2"])
            rocketmq.wait_until(lambda: consumer.positions[QUEUE] > 1)  # the poll that waits was given some
            raise Interrupted

        with signal_while_waiting(interrupt), pytest.raises(Interrupted):
            consumer.poll(timeout_ms=60_000)
        assert consumer.positions == {QUEUE: 1}
        assert consumer.commit() == {QUEUE: 1}
        assert _poll_all(consumer, 2) == ["1", "2"]
        assert consumer.commit() == {QUEUE: 3}


@pytest.mark.parametrize("turns", range(5))
def test_a_cancelled_poll_has_handed_out_nothing_however_close_its_messages_are(rocketmq, producer, turns):

    async def main() -> list[str]:
        consumer = rocketmq.async_pull_consumer("backfill", consume_from_where=FIRST)
        async with consumer:
            await consumer.assign([QUEUE])
            waiting = asyncio.ensure_future(asyncio.wait_for(consumer.poll(timeout_ms=60_000), 60))
            await asyncio.sleep(0)
            assert consumer._running is not None
            service = consumer._running.service
            arrived = service._arrived.set

            def cancel(left: int) -> None:
                if left:
                    asyncio.get_running_loop().call_soon(cancel, left - 1)
                else:
                    waiting.cancel()

            def arrived_and_cancelled() -> None:
                arrived()
                cancel(turns)

            service._arrived.set = arrived_and_cancelled  # type: ignore[method-assign]
            await asyncio.to_thread(send_all, producer, ["0", "1"])
            await asyncio.wait([waiting], timeout=20)
            service._arrived.set = arrived  # type: ignore[method-assign]
            seen = [] if waiting.cancelled() else [message.body.decode() for message in waiting.result()]
            while len(seen) < 2 and (more := await consumer.poll(timeout_ms=10_000)):
                seen += [message.body.decode() for message in more]
            return seen

    assert asyncio.run(main()) == ["0", "1"]


def test_a_late_answer_from_before_a_rebalance_loses_and_repeats_nothing(rocketmq, producer):
    with rocketmq.pull_consumer("backfill", instance_name="2", consume_from_where=FIRST) as consumer:
        late = rocketmq.faults.delay(PULLS, 5_000)
        consumer.subscribe("flights")
        rocketmq.wait_until(lambda: late.hits == 1)
        send_all(producer, ["0", "1"])
        with rocketmq.pull_consumer("backfill", instance_name="1", consume_from_where=FIRST) as other:
            other.subscribe("flights")
            rocketmq.advance_until(
                lambda: other.assigned_queues == [QUEUE] and consumer.assigned_queues == [], patience_ms=200
            )
        rocketmq.advance_until(lambda: consumer.assigned_queues == [QUEUE], patience_ms=200)
        assert _poll_all(consumer, 2) == ["0", "1"]
        rocketmq.advance(5_000)
        assert consumer.poll(timeout_ms=20) == []
        send_all(producer, ["2"])
        assert _poll_all(consumer, 1) == ["2"]
    assert rocketmq.consumer_offset("backfill", "flights") == {0: 3}


def test_a_queue_that_moves_takes_along_what_is_done_and_repeats_what_is_not(rocketmq, producer):
    send_all(producer, ["0", "1", "2"])
    with rocketmq.pull_consumer("backfill", instance_name="2", consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        assert [message.body for message in consumer.poll(1)] == [b"0"]
        assert [message.body for message in consumer.poll(1)] == [b"1"]
        # Members do not wait for each other: a new owner may begin before the old one has written, which repeats, so write first.
        rocketmq.advance_until(lambda: rocketmq.consumer_offset("backfill", "flights") == {0: 1})
        with rocketmq.pull_consumer("backfill", instance_name="1", consume_from_where=FIRST) as other:
            other.subscribe("flights")
            running = parts_of(consumer)
            rocketmq.advance_until(lambda: len(running.rebalancer.table) == 0)
            assert _poll_all(other, 2) == ["1", "2"]
            assert consumer.commit({QUEUE: 0}) == {}, "progress is the new owner's now"
            assert consumer.poll(timeout_ms=0) == []
    assert rocketmq.consumer_offset("backfill", "flights") == {0: 3}


def test_a_seek_is_no_commit_until_there_is_one(rocketmq, producer):
    send_all(producer, ["0", "1", "2"])
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        consumer.assign([QUEUE])
        _poll_all(consumer, 3)
        assert consumer.commit() == {QUEUE: 3}
        consumer.seek(QUEUE, 1)
        assert consumer.positions == {QUEUE: 1}
        rocketmq.advance(20_000)
        assert rocketmq.consumer_offset("backfill", "flights") == {0: 3}
        assert consumer.commit() == {QUEUE: 1}
        assert rocketmq.consumer_offset("backfill", "flights") == {0: 1}
        with pytest.raises(rmq.ConfigurationError, match="offset 4 of .* is not there, 0 to 3 is allowed"):
            consumer.seek(QUEUE, 4)


def test_commit_by_queue_by_offset_later_and_without_waiting(rocketmq, producer):
    rocketmq.create_topic("flights", queues=2)
    second = rmq.MessageQueue("flights", "broker-a", 1)
    for n in range(8):
        producer.send(rmq.Message("flights", str(n).encode()), queue=(QUEUE, second)[n % 2])
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        _poll_all(consumer, 8)
        assert consumer.commit([second]) == {second: 4}
        assert rocketmq.consumer_offset("backfill", "flights") == {1: 4}
        assert consumer.commit({QUEUE: 2}, persist=False) == {QUEUE: 2}
        assert rocketmq.consumer_offset("backfill", "flights") == {1: 4}
        assert consumer.committed(QUEUE) == 2
        assert consumer.commit_async({second: 3}).result(10) == {second: 3}
        assert rocketmq.consumer_offset("backfill", "flights") == {1: 3}
        assert consumer.commit() == {QUEUE: 4, second: 4}
        assert rocketmq.consumer_offset("backfill", "flights") == {0: 4, 1: 4}
        with pytest.raises(rmq.ConfigurationError, match="offset of .* is -1"):
            consumer.commit({QUEUE: -1})


def test_a_commit_that_a_broker_refuses_says_so_and_can_be_made_again(rocketmq, producer):
    send_all(producer, ["0"])
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        consumer.assign([QUEUE])
        _poll_all(consumer, 1)
        rocketmq.faults.fail(RequestCode.UPDATE_CONSUMER_OFFSET, 1, "no room")
        with pytest.raises(rmq.RemoteError, match="no room"):
            consumer.commit()
        assert rocketmq.consumer_offset("backfill", "flights") == {}
        consumer.commit()
        assert rocketmq.consumer_offset("backfill", "flights") == {0: 1}


def test_progress_follows_a_filter_but_not_past_what_is_not_done(rocketmq, producer):
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights", "UA")
        for tag in ("DL", "DL"):
            producer.send(rmq.Message("flights", b"x", tags=tag))
        rocketmq.advance_until(lambda: rocketmq.consumer_offset("backfill", "flights") == {0: 2})
        for tag in ("UA", "DL", "DL"):
            producer.send(rmq.Message("flights", b"x", tags=tag))
        _poll_all(consumer, 1)
        rocketmq.advance_until(lambda: consumer.positions == {QUEUE: 5})
        rocketmq.advance(20_000)
        assert rocketmq.consumer_offset("backfill", "flights") == {0: 2}
        consumer.commit()
        assert rocketmq.consumer_offset("backfill", "flights") == {0: 5}


def test_a_paused_queue_is_not_fetched_until_it_is_resumed(rocketmq, producer):
    rocketmq.create_topic("flights", queues=2)
    second = rmq.MessageQueue("flights", "broker-a", 1)
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        send_all(producer, ["before"], queue=QUEUE)
        assert _poll_all(consumer, 1) == ["before"]
        consumer.pause([QUEUE])
        assert consumer.paused_queues == [QUEUE]
        send_all(producer, ["by the pull under way"], queue=QUEUE)
        assert _poll_all(consumer, 1) == ["by the pull under way"]
        send_all(producer, ["later"], queue=QUEUE)
        send_all(producer, ["other"], queue=second)
        assert _poll_all(consumer, 1) == ["other"]
        assert consumer.poll(timeout_ms=20) == []
        consumer.resume([QUEUE])
        assert _poll_all(consumer, 1) == ["later"]
        assert consumer.paused_queues == []
        with pytest.raises(rmq.ConfigurationError, match="is not read by this consumer"):
            consumer.pause([rmq.MessageQueue("flights", "broker-a", 9)])


def test_a_listener_for_queues_may_seek_before_anything_is_handed_out(rocketmq, producer):
    send_all(producer, ["0", "1", "2"])
    heard: list[tuple[str, list[rmq.MessageQueue], list[rmq.MessageQueue]]] = []
    go = threading.Event()
    with rocketmq.pull_consumer("backfill", instance_name="2", consume_from_where=FIRST) as consumer:

        def on_queues_changed(topic: str, queues: list[rmq.MessageQueue], ours: list[rmq.MessageQueue]) -> None:
            heard.append((topic, queues, ours))
            go.wait(HELD_S)
            for queue in ours:
                consumer.seek(queue, 2)

        consumer.subscribe("flights", on_queues_changed=on_queues_changed)
        assert consumer.poll(timeout_ms=100) == []
        go.set()
        assert _poll_all(consumer, 1) == ["2"]
        assert heard == [("flights", [QUEUE], [QUEUE])]
        with rocketmq.pull_consumer("backfill", instance_name="1", consume_from_where=FIRST) as other:
            other.subscribe("flights")
            rocketmq.advance_until(lambda: heard[1:] == [("flights", [QUEUE], [])], patience_ms=200)
        rocketmq.advance_until(lambda: len(heard) == 3, patience_ms=200)
        assert _poll_all(consumer, 1) == ["2"]


def test_a_consumer_that_assigns_is_notified_when_a_topic_grows(rocketmq):
    heard: list[tuple[str, int]] = []
    with rocketmq.pull_consumer("backfill") as consumer:
        consumer.assign([QUEUE])
        consumer.register_topic_message_queue_change_listener(
            "flights", lambda topic, queues: heard.append((topic, len(queues)))
        )
        rocketmq.advance(40_000)
        rocketmq.create_topic("flights", queues=3)
        rocketmq.advance_until(lambda: heard == [("flights", 3)])
        assert len(consumer.fetch_message_queues("flights")) == 3
        with pytest.raises(rmq.TopicNotExist):
            consumer.fetch_message_queues("nothing")


def test_queues_that_were_away_only_when_they_were_fetched_are_heard_of(rocketmq, producer):
    """As of a broker that registers again between two checks: who has assigned what was there reads the others again, too."""
    heard: list[int] = []
    rocketmq.create_topic("flights", queues=3)
    with rocketmq.pull_consumer("backfill") as consumer:
        consumer.register_topic_message_queue_change_listener(
            "flights", lambda topic, queues: heard.append(len(queues))
        )
        rocketmq.create_topic("flights", queues=1)
        consumer.assign(consumer.fetch_message_queues("flights"))
        rocketmq.create_topic("flights", queues=3)
        assert len(consumer.fetch_message_queues("flights")) == 3, "somebody else has looked"
        rocketmq.advance_until(lambda: heard == [3])
        consumer.assign(consumer.fetch_message_queues("flights"))
        rocketmq.advance(90_000)
        assert heard == [3]


def test_pulling_stops_while_too_much_waits_over_all_queues(rocketmq, producer):
    rocketmq.create_topic("flights", queues=4)
    send_all(producer, [str(n) for n in range(80)])
    with rocketmq.pull_consumer(
        "backfill", consume_from_where=FIRST, pull_batch_size=2, pull_threshold_for_all=8
    ) as consumer:
        consumer.subscribe("flights")
        polled: list[str] = []
        while len(polled) < 80:
            messages = consumer.poll(3, timeout_ms=10_000)
            assert messages
            polled += [message.body.decode() for message in messages]
            running = parts_of(consumer)
            waiting = sum(queue.pending_count for queue in running.rebalancer.table.active().values())
            assert waiting <= 8 + 4 * 2, "one pull of each queue may be under way when it becomes full"
        assert sorted(polled, key=int) == [str(n) for n in range(80)]


def test_a_consumer_with_assigned_queues_announces_no_filter_for_the_group(rocketmq, producer):
    rocketmq.create_topic("flights", queues=2)
    second = rmq.MessageQueue("flights", "broker-a", 1)
    for tag in ("UA", "DL"):
        for queue in (QUEUE, second):
            producer.send(rmq.Message("flights", tag.encode(), tags=tag), queue=queue)
    with (
        rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as one,
        rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as other,
        rocketmq.admin() as admin,
    ):
        one.assign([QUEUE], "UA")
        other.assign([second], {"flights": "DL"})
        assert (_poll_all(one, 1), _poll_all(other, 1)) == (["UA"], ["DL"])
        connection = admin.consumer_connection("backfill")
        assert connection is not None
        assert (len(connection.connection_set), connection.subscription_table) == (2, {})


def test_a_topic_can_be_left(rocketmq, producer):
    rocketmq.create_topic("trains", queues=1)
    with rocketmq.pull_consumer("backfill", consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights")
        consumer.subscribe("trains")
        consumer.unsubscribe("flights")
        assert consumer.assigned_queues == [rmq.MessageQueue("trains", "broker-a", 0)]
        send_all(producer, ["0"])
        send_all(producer, ["1"], topic="trains")
        assert _poll_all(consumer, 1) == ["1"]


def test_progress_is_written_each_auto_commit_interval_while_polls_are_made(rocketmq, producer):
    send_all(producer, ["0"])
    with rocketmq.pull_consumer(
        "backfill",
        consume_from_where=FIRST,
        auto_commit_interval_ms=1_000,
        persist_consumer_offset_interval_ms=3_600_000,
    ) as consumer:
        consumer.assign([QUEUE])
        _poll_all(consumer, 1)
        rocketmq.advance(1_000)
        consumer.poll(timeout_ms=0)
        rocketmq.wait_until(lambda: rocketmq.consumer_offset("backfill", "flights") == {0: 1})


def test_a_pull_consumer_without_queues_or_start_says_so():
    consumer = rmq.PullConsumer("backfill", namesrv_addr="127.0.0.1:1")
    with pytest.raises(rmq.ConfigurationError, match="no queue is given"):
        consumer.assign([])
    with pytest.raises(rmq.ClosedError, match="is not started"):
        consumer.poll()


def test_the_async_face_awaits_its_listener(rocketmq, producer):
    send_all(producer, ["0", "1"])

    async def consume() -> None:
        async with rocketmq.async_pull_consumer("backfill", auto_commit=False) as consumer:

            async def on_queues_changed(topic: str, queues: list[MessageQueue], ours: list[MessageQueue]) -> None:
                for queue in ours:
                    await consumer.seek_to_begin(queue)

            await consumer.subscribe("flights", on_queues_changed=on_queues_changed)
            got: list[bytes] = []
            while len(got) < 2:
                got += [message.body for message in await consumer.poll()]
            assert got == [b"0", b"1"]
            assert await consumer.commit_async() == {QUEUE: 2}

    asyncio.run(consume())


def test_a_namespace_is_put_on_and_taken_off_everywhere(rocketmq):
    rocketmq.create_topic("ns%flights", queues=1)
    heard: list[tuple[str, list[MessageQueue], list[MessageQueue]]] = []
    with (
        rocketmq.producer("ops", namespace="ns") as producer,
        rocketmq.pull_consumer("backfill", namespace="ns", auto_commit=False, consume_from_where=FIRST) as consumer,
    ):
        send_all(producer, ["0", "1"])
        consumer.subscribe("flights", on_queues_changed=lambda *news: heard.append(news))
        messages = consumer.poll(timeout_ms=30_000)
        assert {message.topic for message in messages} == {"flights"}
        assert heard == [("flights", [QUEUE], [QUEUE])]
        assert consumer.assigned_queues == [QUEUE] == consumer.fetch_message_queues("flights")
        consumer.seek(QUEUE, 1)
        assert consumer.positions == {QUEUE: 1}
        assert consumer.commit({QUEUE: 1}) == {QUEUE: 1} == consumer.commit([QUEUE])
        assert consumer.committed(QUEUE) == 1
        consumer.pause([QUEUE])
        assert consumer.paused_queues == [QUEUE]
        assert (consumer.min_offset(QUEUE), consumer.max_offset(QUEUE)) == (0, 2)
    assert rocketmq.consumer_offset("ns%backfill", "ns%flights") == {0: 1}


def test_hooks_are_called_for_messages_that_a_poll_returns(rocketmq, producer):
    send_all(producer, ["0", "1"])
    heard: list[tuple[str, object]] = []

    class Hook:
        def before_consume(self, context: rmq.ConsumeMessageContext) -> None:
            heard.append(("before", [message.body for message in context.messages]))

        def after_consume(self, context: rmq.ConsumeMessageContext) -> None:
            heard.append(("after", context.success))

    consumer = rocketmq.pull_consumer("backfill", consume_from_where=FIRST)
    consumer.add_hook(Hook())
    with consumer:
        consumer.assign([QUEUE])
        assert len(consumer.poll(1, timeout_ms=30_000)) == 1
        with pytest.raises(rmq.ConfigurationError, match="hooks are added before start"):
            consumer.add_hook(Hook())
    assert heard == [("before", [b"0"]), ("after", True)]


@pytest.mark.parametrize("committed", [0, 1, 2], ids=lambda count: f"{count} committed")
@pytest.mark.parametrize("sought", [False, True], ids=["read on", "sought"])
@pytest.mark.parametrize("offset", [2, 3], ids=["the end is lost", "the end is lost behind what waits"])
def test_what_was_handed_out_is_not_finished_when_the_broker_has_lost_what_came_after_it(
    rocketmq, producer, committed, sought, offset
):
    """Found by the simulator, seeds 3853042018 and 47."""
    send_all(producer, ["0", "1", "2", "3"])
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        in_hand(consumer, committed, sought)
        again = continued(rocketmq, consumer, offset, has_lost_end=True)
        assert again == (min(committed, 1) if sought else committed)


def test_a_reset_skips_what_is_in_hand(rocketmq, producer):
    """As the one of a message that nobody can handle."""
    send_all(producer, ["0", "1", "2", "3"])
    with rocketmq.pull_consumer("backfill", auto_commit=False, consume_from_where=FIRST) as consumer:
        in_hand(consumer, 0, sought=False)
        assert continued(rocketmq, consumer, 2, has_lost_end=False) == 2


def in_hand(consumer: rmq.PullConsumer, committed: int, sought: bool) -> None:
    """Of the queue, so many messages are committed and one more is in hand; or the second one, which was sought."""
    consumer.subscribe("flights")
    for _ in range(committed):
        consumer.poll(1, timeout_ms=30_000)
    if committed:
        consumer.commit()
    if sought:
        consumer.poll(1, timeout_ms=30_000)
        consumer.seek(QUEUE, 1)
    (message,) = consumer.poll(1, timeout_ms=30_000)
    assert message.queue_offset == (1 if sought else committed)


def continued(rocketmq: Any, consumer: rmq.PullConsumer, offset: int, *, has_lost_end: bool) -> int:
    """Where the consumer goes on, when its broker says ``offset``; its progress is the same."""
    running, polled = parts_of(consumer), []

    def refused() -> None:
        running.rebalancer.held()[QUEUE].drop()
        running.offset_illegal(QUEUE, offset, has_lost_end)

    def comes() -> bool:
        polled.extend(one.queue_offset for one in consumer.poll(1, timeout_ms=0))
        return bool(polled)

    consumer._engine.call(refused)
    rocketmq.advance_until(comes)
    assert consumer.committed(QUEUE) == polled[0]
    return polled[0]
