# SPDX-License-Identifier: Apache-2.0
"""Our pull consumer against Apache's own servers, both generations: shared and assigned queues, seek, commit, time, rebalance."""

from __future__ import annotations

import time

import sprocketmq as rmq
from interop.child import poll_until

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def _poll_all(consumer: rmq.PullConsumer, count: int) -> list[str]:
    bodies: list[str] = []
    deadline_s = time.monotonic() + 60
    while len(bodies) < count:
        assert time.monotonic() < deadline_s, f"only {bodies} of {count} messages came"
        bodies += [message.body.decode() for message in consumer.poll(timeout_ms=1_000)]
    return bodies


def test_a_pull_consumer_goes_where_it_is_told_and_moves_without_loss(apache):
    topic = f"pulled-{time.time_ns()}"
    address = apache.namesrv_addr
    with rmq.Admin(namesrv_addr=address) as admin, rmq.Producer("ours", namesrv_addr=address) as producer:
        admin.create_topic(topic, queues=2)
        first, second = admin.queues(topic)
        for number in range(20):
            producer.send(
                rmq.Message(topic, b"%d" % number, tags="AB"[number // 10]), queue=(first, second)[number % 2]
            )
        with rmq.PullConsumer(f"{topic}-assigned", namesrv_addr=address, auto_commit=False) as consumer:
            consumer.assign([first], "B")
            consumer.seek_to_begin(first)
            assert _poll_all(consumer, 5) == ["10", "12", "14", "16", "18"]
            assert consumer.commit() == {first: 10}
            assert admin.consumer_offset(f"{topic}-assigned", first) == 10
            consumer.seek(first, 7)
            assert admin.consumer_offset(f"{topic}-assigned", first) == 10
            assert _poll_all(consumer, 3) == ["14", "16", "18"]
            assert consumer.commit_async({first: 8}).result(30) == {first: 8}
            assert consumer.committed(first) == 8
            assert consumer.offset_for_timestamp(first, 0) == 0
            assert (consumer.min_offset(first), consumer.max_offset(first)) == (0, 10)
            consumer.pause([first])
            assert consumer.paused_queues == [first]
            consumer.resume()
            assert consumer.fetch_message_queues(topic) == [first, second]

        group = f"{topic}-shared"
        with rmq.PullConsumer(group, namesrv_addr=address, consume_from_where=FIRST) as one:
            one.subscribe(topic)
            got = _poll_all(one, 20)
            with rmq.PullConsumer(group, namesrv_addr=address, consume_from_where=FIRST) as other:
                other.subscribe(topic)
                poll_until(
                    lambda: (
                        sorted(one.assigned_queues + other.assigned_queues) == [first, second]
                        and len(one.assigned_queues) == 1
                    ),
                    "the queues are shared",
                    90,
                )
                for number in range(20, 30):
                    producer.send(rmq.Message(topic, b"%d" % number), queue=(first, second)[number % 2])
                both: list[str] = []

                def all_came() -> bool:
                    for member in (one, other):
                        both.extend(message.body.decode() for message in member.poll(timeout_ms=200))
                    return set(map(int, both)) >= set(range(20, 30))

                poll_until(all_came, "both members got their shares")
            poll_until(lambda: len(one.assigned_queues) == 2, "the queues came back")
        assert sorted(map(int, got)) == list(range(20))
        poll_until(lambda: admin.lag(group, topic) == 0, "progress is written")
