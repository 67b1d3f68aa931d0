# SPDX-License-Identifier: Apache-2.0
"""Large tables for a broker and a name server, the largest requests that peers may send, and all periodic tasks.

For `bench/loop_share.py` and `tests/inproc/broker/test_loop_share.py`: what they measure, or count the steps of.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from registrations import register
from sprocketmq.broker import Broker, NameServer
from sprocketmq.broker.tables.consumers import Member
from sprocketmq.wire.bodies import (
    ConsumerData,
    DataVersion,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
)

Asked = tuple[str, str, list[tuple[int, dict[str, str], bytes]]]
TOPIC: Final = "compared"
GROUP: Final = "readers"


class Sizes(NamedTuple):
    topics: int
    groups: int
    offsets: int
    members: int


class _Peer:
    """Stands for the connection of a member that takes everything and answers nothing."""

    remote_address = "127.0.0.1:1"
    is_closed = is_congested = False

    def send(self, command: object) -> None:
        pass

    close = abort = lambda self: None


def fill(broker: Broker, namesrv: NameServer, sizes: Sizes) -> None:
    """Tables of these sizes; to be called on the loop."""
    now_ms = broker.clock.now_ms()
    topics = [TopicConfig(topic_name=f"topic-{number:06}") for number in range(sizes.topics)]
    broker.topics.table.update({topic.topic_name: topic for topic in topics})
    groups = [SubscriptionGroupConfig(group_name=f"group-{number:06}") for number in range(sizes.groups)]
    broker.groups.table.update({group.group_name: group for group in groups})
    for number in range(sizes.offsets):
        topic, group = number // 8 % sizes.topics, number // (8 * sizes.topics)
        broker.offsets.commit(f"group-{group:06}", f"topic-{topic:06}", number % 8, number)
    for number in range(sizes.members):
        member = Member(_Peer(), f"client-{number}", "JAVA", 409, now_ms)  # type: ignore[arg-type]
        data = ConsumerData(group_name=GROUP, subscription_data_set=[SubscriptionData(topic=TOPIC, sub_string="*")])
        broker.consumers.register(member, data, notify=False)
        broker.consumers.register(member, ConsumerData(group_name=f"group-{number:06}"), notify=False)
        broker.producers.register(member, f"producers-{number}")
        broker.locks.try_lock(GROUP, number, f"client-{number}", now_ms)  # type: ignore[arg-type]
    for config in topics:
        broker.counters.stored(config.topic_name, 1, 100)
        broker.counters.pulled_by(config.topic_name, GROUP, 1, 100)
    register(namesrv.table, "of-others", "other", 0, "127.0.0.1:2", broker.topics.table, DataVersion(), now_ms)


def large_requests(sizes: Sizes) -> list[Asked]:
    """Requests that name as much as one frame may, or many in one write."""
    frames: list[Asked] = []

    def add(to: str, key: str, code: int, fields: dict[str, str], body: bytes = b"", times: int = 1) -> None:
        frames.append((to, key, [(code, fields, body)] * times))

    broker = {
        "haServerAddr": "",
        "brokerName": "liar",
        "brokerAddr": "127.0.0.1:3",
        "clusterName": "liars",
        "brokerId": "0",
    }
    frames.append(("namesrv", "1,000 at once", [
        (100, {"namespace": "n", "key": f"k{number}", "value": "v" * 100}, b"") for number in range(1_000)
    ]))  # fmt: skip
    add("namesrv", "compressed, 80,000 topics", 103, {**broker, "compressed": "true"}, compressed_registration(80_000))
    config = {f"t{number}": {"topicName": f"t{number}"} for number in range(80_000)}
    body = {"topicConfigSerializeWrapper": {"topicConfigTable": config, "dataVersion": {}}, "filterServerList": []}
    add("namesrv", "80,000 topics", 103, {**broker, "brokerName": "liar2", "brokerAddr": "127.0.0.1:4"}, dumped(body))
    return frames + _of_the_broker()


def _of_the_broker() -> list[Asked]:
    def one(key: str, code: int, fields: dict[str, str], body: Any = b"") -> Asked:
        return ("broker", key, [(code, fields, body if isinstance(body, bytes) else dumped(body))])

    groups = [{"groupName": f"stranger-{number}", "subscriptionDataSet": []} for number in range(100_000)]
    allowed = groups[:1_000]
    topics = [{"topic": f"x{number}", "subString": "*"} for number in range(50_000)]
    queues = [{"topic": f"x{number}", "brokerName": "broker-a", "queueId": 1} for number in range(100_000)]
    producers = [{"groupName": f"p{number}"} for number in range(100_000)]
    sql = [
        {"topic": f"x{number}", "subString": f"a > {number}", "expressionType": "SQL92", "subVersion": 1}
        for number in range(5_000)
    ]
    return [
        one("100,000 groups", 34, {}, {"clientID": "a", "consumerDataSet": groups, "producerDataSet": []}),
        one("1,000 groups", 34, {}, {"clientID": "a", "consumerDataSet": allowed, "producerDataSet": []}),
        one("100,000 producers", 34, {}, {"clientID": "a", "consumerDataSet": [], "producerDataSet": producers}),
        one("50,000 subscriptions", 34, {}, {"clientID": "b", "consumerDataSet": [{"groupName": "wide", "subscriptionDataSet": topics}]}),
        one("1,000 expressions", 34, {}, {"clientID": "b", "consumerDataSet": [{"groupName": "sql", "subscriptionDataSet": sql[:1_000]}]}),
        one("5,000 expressions", 34, {}, {"clientID": "b", "consumerDataSet": [{"groupName": "sql", "subscriptionDataSet": sql}]}),
        one("2,000 queues", 41, {}, {"consumerGroup": "g", "clientId": "c", "mqSet": queues[:2_000]}),
        one("100,000 queues", 41, {}, {"consumerGroup": "g", "clientId": "c", "mqSet": queues}),
        one("100,000 queues", 42, {}, {"consumerGroup": "g", "clientId": "c", "mqSet": queues}),
        one("2,000 topics", 18, {}, {"topicConfigList": [{"topicName": f"y{number}"} for number in range(2_000)]}),
        one("2,000 groups", 225, {}, {"groupConfigList": [{"groupName": f"y{number}"} for number in range(2_000)]}),
        one("odd JSON of 2 MB", 34, {}, b"{" + b",".join(b"%d:%d" % (number, number) for number in range(150_000)) + b"}"),
        one("20,000 topics", 18, {}, {"topicConfigList": [{"topicName": f"y{number}"} for number in range(20_000)]}),
        one("20,000 groups", 225, {}, {"groupConfigList": [{"groupName": f"y{number}"} for number in range(20_000)]}),
        ("broker", "10 at once", [(21, {}, b"")] * 10),
    ]  # fmt: skip


def compressed_registration(count: int) -> bytes:
    def part(text: bytes) -> bytes:
        return len(text).to_bytes(4, "big") + text

    lines = b"".join(part(b"t%d 4 4 6 SINGLE_TAG {}" % number) for number in range(count))
    return zlib.compress(part(b"{}") + count.to_bytes(4, "big") + lines + part(b"[]") + bytes(4), 9)


def dumped(body: Any) -> bytes:
    return json.dumps(body).encode()


Task = Callable[[], Coroutine[Any, Any, object]]


def periodic_tasks(broker: Broker, namesrv: NameServer) -> list[tuple[str, Task]]:
    """Everything that a broker and a name server do by the clock, with what it begins beside the loop."""

    def plain(call: Callable[[], object]) -> Task:
        async def run() -> object:
            result = call()
            for _ in range(20):
                await asyncio.sleep(0.01)
            return result and None

        return run

    save, housekeeping = broker.config_store, broker.housekeeping

    def touch_offsets() -> None:
        broker.offsets.is_dirty = True
        save.save_offsets()

    return [
        ("task: consumer offsets to the disk", plain(touch_offsets)),
        ("task: delay offsets to the disk", plain(save.save_delay_offsets)),
        ("task: topics to the disk", plain(save.topics_changed)),
        ("task: groups to the disk", plain(save.groups_changed)),
        ("task: housekeeping", plain(housekeeping._round)),
        ("task: registration", plain(lambda: broker.registration.changed())),
        ("task: metrics", lambda: asyncio.to_thread(_scrape, broker.metrics.port)),
        ("task: metrics, again", lambda: asyncio.to_thread(_scrape, broker.metrics.port)),
        ("task: name server's scan", plain(namesrv._scan_silent_brokers)),
        ("task: transactions", plain(broker.transactions._begin_round)),
        ("task: log cleaning", plain(lambda: broker.store.clean(broker.clock.now_ms()))),
        ("task: replication's housekeeping", plain(broker.replication._run_housekeeping)),
    ]


def _scrape(port: int) -> int:
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
        return len(page.read())
