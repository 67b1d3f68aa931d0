# SPDX-License-Identifier: Apache-2.0
"""Apache's own Java clients, 5.4.0 and 4.9.7, at our name server and broker: send, filter, retry, order, transactions, request-reply."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import sprocketmq as rmq
from interop.peers import APACHE_4, ApacheCluster, StartProgram, poll_until
from interop.remoting import has_route


def send(start: StartProgram, topic: str, count: int, **options: str | int | bool) -> list[dict[str, Any]]:
    """Run a producer to its end and return its "sent" lines."""
    program = start("Producer", topic=topic, count=count, **options)
    sent = program.read_rest("sent", 60)
    assert program.wait() == 0, program.last_words()
    return sent


def consume(start: StartProgram, topic: str, count: int, **options: str | int | bool) -> list[dict[str, Any]]:
    """Run a push consumer until `count` messages succeeded, and return all deliveries."""
    program = start("PushConsumer", topic=topic, group=f"of-{topic}", count=count, **options)
    deliveries = program.read_rest("message", 90)
    assert program.wait() == 0, program.last_words()
    return deliveries


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch", "ordered"])
def test_every_way_of_sending_delivers_every_message_once(start, server, topic, mode):
    sent = send(start, topic, 20, mode=mode, tags="A,B")
    deliveries = consume(start, topic, 20)
    assert sorted(d["body"] for d in deliveries) == sorted(f"number {i}" for i in range(20))
    assert all(d["reconsumeTimes"] == 0 and d["flag"] == int(d["body"].split()[1]) for d in deliveries)
    if mode in ("sync", "async", "ordered"):
        stored = {(d["msgId"], d["queueId"], d["queueOffset"]) for d in deliveries}
        assert {(s["msgId"], s["queueId"], s["queueOffset"]) for s in sent} == stored
        assert {s["status"] for s in sent} == {"SEND_OK"}
    if mode == "batch" and not (type(server) is ApacheCluster and server.version == APACHE_4):
        # 4.9.7 gives all messages of a 5.x client's batch one id.
        assert sorted(",".join(s["msgId"] for s in sent).split(",")) == sorted(d["msgId"] for d in deliveries)
        assert len({d["msgId"] for d in deliveries}) == 20


def test_a_tag_expression_filters(start, topic):
    send(start, topic, 30, tags="A,B,C")
    deliveries = consume(start, topic, 20, tags="A || C")
    assert {d["tags"] for d in deliveries} == {"A", "C"}
    assert len({d["msgId"] for d in deliveries}) == 20


def test_a_message_that_fails_twice_comes_back_with_its_reconsume_times_and_its_id(start, topic):
    sent = send(start, topic, 3, tags="A")
    deliveries = consume(start, topic, 3, fail=2)
    by_id: dict[str, list[int]] = defaultdict(list)
    for delivery in deliveries:
        by_id[delivery["msgId"]].append(delivery["reconsumeTimes"])
        assert delivery["topic"] == topic, "a retried message shows the topic it was sent to"
    assert by_id == {s["msgId"]: [0, 1, 2] for s in sent}


def test_a_message_that_always_fails_ends_in_the_dead_letter_topic(start, topic, server):
    send(start, topic, 1, tags="A")
    failing = start("PushConsumer", topic=topic, group=f"of-{topic}", fail=100, max_reconsume=1)
    assert [d["reconsumeTimes"] for d in failing.read_events("message", 2, 60)] == [0, 1]
    failing.stop()
    # Java's consumer asks for a topic that it does not find again after 20 s.
    poll_until(lambda: has_route(server.namesrv_addr, f"%DLQ%of-{topic}"), "the dead letter has its topic")
    dead = start("PushConsumer", topic=f"%DLQ%of-{topic}", group=f"undertaker-{topic}", count=1)
    (letter,) = dead.read_events("message", 1, 60)
    assert letter["body"] == "number 0"
    assert letter["properties"]["RETRY_TOPIC"] == topic


def test_orderly_consumption_keeps_each_queue_in_order(start, topic):
    send(start, topic, 40, mode="ordered", keys=4)
    program = start("OrderlyConsumer", topic=topic, group=f"of-{topic}", count=40)
    by_queue: dict[int, list[int]] = defaultdict(list)
    for delivery in program.read_rest("message", 90):
        by_queue[delivery["queueId"]].append(delivery["queueOffset"])
    assert sum(map(len, by_queue.values())) == 40
    assert all(offsets == list(range(len(offsets))) for offsets in by_queue.values())


def test_an_orderly_queue_waits_for_its_failing_message(start, topic):
    send(start, topic, 4, mode="ordered", keys=1)
    program = start("OrderlyConsumer", topic=topic, group=f"of-{topic}", count=4, fail=1)
    assert [d["queueOffset"] for d in program.read_rest("message", 90)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_progress_survives_the_consumer(start, topic, server):
    send(start, topic, 5)
    assert len(consume(start, topic, 5)) == 5
    with rmq.Admin(namesrv_addr=server.namesrv_addr) as admin:
        # Java commits one-way, and may have ended before that arrives.
        poll_until(lambda: admin.lag(f"of-{topic}", topic) == 0, "the broker has the group's progress")
    send(start, topic, 3)
    later = consume(start, topic, 3)
    assert sorted(d["body"] for d in later) == ["number 0", "number 1", "number 2"]


def test_two_members_of_a_group_share_its_queues(start, topic):
    members = [
        start("PushConsumer", topic=topic, group=f"of-{topic}", instance=f"member-{i}").ready() for i in range(2)
    ]
    # A member that has messages while its sibling has none proves nothing; a member without any proves the lack of sharing.
    producer = start("Producer", topic=topic, count=4, mode="sync", stay=True)
    producer.read_events("sent", 4)
    seen: list[set[int]] = []
    for member in members:
        first = member.read_events("message", 1, 60)[0]
        seen.append({first["queueId"]})
        member.close_input()
        seen[-1] |= {d["queueId"] for d in member.read_rest("message", 60)}
    assert seen[0], seen
    assert seen[1], seen


def test_broadcasting_gives_every_member_every_message(start, topic):
    members = [
        start("PushConsumer", topic=topic, group=f"of-{topic}", instance=f"member-{i}", broadcast=True, count=6)
        for i in range(2)
    ]
    for member in members:
        member.ready()
    send(start, topic, 6)
    for member in members:
        assert sorted(d["body"] for d in member.read_rest("message", 60)) == [f"number {i}" for i in range(6)]


def test_a_compressed_body_arrives_whole(start, topic):
    send(start, topic, 1, body_bytes=20_000, compress_over=1000)
    (delivery,) = consume(start, topic, 1)
    assert len(delivery["body"]) >= 20_000


def test_a_delayed_message_arrives_after_its_level(start, topic):
    send(start, topic, 1, delay_level=2)
    (delivery,) = consume(start, topic, 1)
    assert delivery["storeTimestamp"] - delivery["bornTimestamp"] >= 1000
    assert delivery["properties"]["DELAY"] == "2"


def test_a_transaction_shows_what_was_committed_and_checks_back_what_is_unknown(start, topic):
    producer = start("Producer", topic=topic, mode="transaction", count=6, stay=True, group=f"by-{topic}")
    checked = {line["properties"]["number"] for line in producer.read_events("checked", 2, 120)}
    assert checked == {"2", "5"}
    deliveries = consume(start, topic, 4)
    assert sorted(d["properties"]["number"] for d in deliveries) == ["0", "2", "3", "5"]


def test_a_request_is_answered(start, topic):
    start("PushConsumer", topic=topic, group=f"of-{topic}", reply="here you are").ready()
    asking = start("Producer", topic=topic, mode="request", count=2, group=f"by-{topic}")
    assert [line["body"] for line in asking.read_events("answer", 2)] == ["here you are"] * 2
