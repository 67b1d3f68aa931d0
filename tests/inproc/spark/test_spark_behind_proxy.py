# SPDX-License-Identifier: Apache-2.0
"""What Spark does with a proxy as its name server: two brokers have one address, and a part of their requests is not served. tests/interop
has Apache's proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import sprocketmq as rmq
from embedded_proxy import embedded_proxy, second_broker_of
from inproc.spark.as_spark import Readers, ask, first_batch, lag_at, next_batch, read, send
from inproc.spark.lazy_rows import Flag, LazyRows
from sprocketmq.broker import Broker
from sprocketmq.cli.checkpoint import _offset
from sprocketmq.cli.frame.target import Target
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, TopicNotExist
from sprocketmq.net.connection import Connection
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.read.queue_bounds import gone_queues, queue_bounds, request_count
from sprocketmq.spark.retry.row_retry import RowRetry, foreach_batch
from sprocketmq.spark.retry.send_back import SendBackRequest, send_back
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.spark.write.message_sender import MessageSender
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.message import MessageQueue

QUEUES: Final = [MessageQueue("flights", name, number) for name in ("broker-a", "broker-b") for number in (0, 1)]


@pytest.fixture
def broker_b(mq: EmbeddedRocketMQ) -> Iterator[Broker]:
    with second_broker_of(mq) as broker, mq.admin() as admin:
        admin.create_topic("flights", queues=2)
        yield broker


@pytest.fixture
def proxy_addr(mq: EmbeddedRocketMQ, broker_b: Broker) -> Iterator[str]:
    with embedded_proxy(mq, [mq.broker, broker_b]) as address:
        yield address


@pytest.fixture
def cluster(proxy_addr: str) -> Cluster:
    return Cluster.at(proxy_addr, 2_000)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, proxy_addr: str) -> list[Command]:
    """What is sent to the proxy."""
    sent: list[Command] = []
    invoke = Connection.invoke

    async def noted(self: Connection, command: Command, timeout_ms: int) -> Command:
        if self.remote_address == proxy_addr:
            sent.append(command)
        return await invoke(self, command, timeout_ms)

    monkeypatch.setattr(Connection, "invoke", noted)
    return sent


@pytest.fixture
def reader(proxy_addr: str, readers: Readers) -> Readers:
    return partial(readers, namesrvaddr=proxy_addr)


def stored(mq: EmbeddedRocketMQ, topic: str = "flights") -> list[rmq.MessageExt]:
    """The messages of both brokers."""
    with mq.admin() as admin:
        ends = {queue: offsets.max_offset for queue, offsets in admin.topic_stats(topic).items()}
        return [found for queue, end in ends.items() for at in range(end) if (found := admin.message_at(queue, at))]


def codes(sent: Sequence[Command]) -> Counter[int]:
    return Counter(command.code for command in sent)


def test_bounds_come_from_the_offsets_of_each_queue_and_topic_stats_are_asked_for_once(
    mq: EmbeddedRocketMQ, cluster: Cluster, asked: list[Command]
) -> None:
    for count, queue in enumerate(QUEUES):
        send(mq, *range(count), queue=queue)
    queues = cluster.queues(["flights"])
    assert queues == QUEUES
    found = queue_bounds(cluster, queues)
    assert found == queue_bounds(Cluster.at(mq.namesrv_addr), queues)
    assert {held.newest_ms for held in found.values()} == {None}
    assert RequestCode.GET_TOPIC_STATS_INFO in codes(asked)
    asked.clear()
    queue_bounds(cluster, queues)
    assert codes(asked) == {RequestCode.GET_MIN_OFFSET: 4, RequestCode.GET_MAX_OFFSET: 4}
    assert request_count(cluster, queues) == 8
    assert queue_bounds(cluster, [MessageQueue("flights", "broker-a", 7)]) == {}  # a broker answers 0 for any queue


def test_a_stream_reads_and_commits_at_both_brokers_and_knows_its_lag_in_time(
    mq: EmbeddedRocketMQ, reader: Readers
) -> None:
    for ten in (0, 10, 20):
        for number, queue in enumerate(QUEUES):
            send(mq, ten + number, queue=queue)
        later_ms = mq.clock.now_ms() + 5
        mq.wait_until(lambda: mq.clock.now_ms() > later_ms)  # noqa: B023
    stream = reader(group="delays", startingoffsets="earliest", maxoffsetspertrigger="6")
    end, rows = first_batch(stream)
    stream._planner.poller.bounds()  # which does not tell the times again
    lag = lag_at(stream, end)
    times_ms = {(one.message_queue, one.queue_offset): one.store_timestamp_ms for one in stored(mq)}
    unread = {queue: 3 - count for queue, count in lag.by_queue.items() if count}
    assert max(lag.ms_by_queue.values()) > 0
    assert lag.ms_by_queue == {queue: times_ms[queue, 2] - times_ms[queue, at] for queue, at in unread.items()}
    assert lag.oldest_unread_ms == min(times_ms[place] for place in unread.items())
    end, more = next_batch(stream, end)
    assert (len(rows), sorted(rows + more)) == (6, [ten + number for ten in (0, 10, 20) for number in range(4)])
    ask(stream, end)
    with mq.admin() as admin:
        assert {queue: admin.consumer_offset("delays", queue) for queue in QUEUES} == dict.fromkeys(QUEUES, 3)


def test_a_broker_is_found_by_its_name_though_no_known_route_names_it(
    mq: EmbeddedRocketMQ, cluster: Cluster, proxy_addr: str
) -> None:
    assert cluster.run(lambda: cluster.master("broker-b")) == proxy_addr
    assert cluster.master_names() == {"broker-a", "broker-b"}
    with pytest.raises(NetworkError, match=f"broker 'broker-z' is not registered with {proxy_addr} now"):
        cluster.run(lambda: cluster.master("broker-z"), 0)
    send(mq, 1, queue=QUEUES[3])
    (message,) = stored(mq)
    back = SendBackRequest("broker-b", message.commit_log_offset, delay_level=-1)
    assert send_back([back], group="delays", namesrv_addr=proxy_addr) == []
    assert [letter.body for letter in stored(mq, "%DLQ%delays")] == [b"1"]


def test_brokers_that_an_account_may_not_see_are_those_of_the_topics(
    mq: EmbeddedRocketMQ, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = cluster.routes.recent

    async def refuse_others(topic: str) -> Any:
        if topic != "flights":
            raise rmq.NoPermission(16, f"no rights on {topic}")
        return await route(topic)

    monkeypatch.setattr(cluster.routes, "recent", refuse_others)
    assert cluster.master_names() == set()
    assert cluster.master_names(["flights"]) == {"broker-a", "broker-b"}


def test_an_account_that_sees_its_topics_alone_sends_rows_back(
    mq: EmbeddedRocketMQ, proxy_addr: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(mq, 1, queue=QUEUES[3])
    (message,) = stored(mq)
    route = NameServers.route

    async def refuse_others(servers: NameServers, topic: str) -> Any:
        if topic != "flights":
            raise rmq.NoPermission(16, f"no rights on {topic}")
        return await route(servers, topic)

    monkeypatch.setattr(NameServers, "route", refuse_others)
    monkeypatch.setattr(RowRetry, "_is_bad", staticmethod(lambda judged: Flag(lambda row: True)))
    monkeypatch.setattr(RowRetry, "_columns_to_fetch", staticmethod(lambda bad: bad))
    place = {"brokerName": "broker-b", "commitLogOffset": message.commit_log_offset, "topic": "flights"}
    judged: Any = LazyRows([*place, "action"], lambda: [{**place, "action": "dlq"}])
    retry = foreach_batch(lambda rows, _: rows, write=lambda rows, _: None, group="delays", namesrv_addr=proxy_addr)
    retry._send_back(judged, retry._fetch_bad_rows(judged), 0)
    monkeypatch.undo()
    assert [letter.body for letter in stored(mq, "%DLQ%delays")] == [b"1"]


def test_a_queue_is_gone_if_its_own_master_says_so(
    mq: EmbeddedRocketMQ, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, beyond, away, unknown = (
        MessageQueue("gone", "broker-b", 0),
        MessageQueue("flights", "broker-b", 7),
        MessageQueue("flights", "broker-c", 0),
        MessageQueue("flights", "broker-a", 1),
    )

    async def answer(asked: Cluster, address: str, group: str, queue: MessageQueue, *args: Any, **named: Any) -> None:
        assert group == "delays"
        if queue == unknown:
            raise RemoteError(1, "the broker cannot read now")
        # PullMessageProcessor of Apache; a broker that is not registered is a topic without a route to the proxy.
        if queue == beyond:
            raise RemoteError(
                29, "queueId[7] is illegal, topic:[flights] topicConfig.readQueueNums:[2] consumer:[/127.0.0.1:1]"
            )
        raise TopicNotExist(17, f"no route of {queue}")

    addresses = {"broker-c": [{0: "127.0.0.1:1"}, {}]}  # it is deregistered in between

    async def broker_addresses(name: str) -> dict[int, str]:
        return addresses[name].pop(0) if name in addresses else {0: "127.0.0.1:1"}

    monkeypatch.setattr(cluster.name_servers, "broker_addresses", broker_addresses)
    monkeypatch.setattr("sprocketmq.spark.read.queue_bounds.read_queue", answer)
    cluster.queues(["flights"])
    assert gone_queues(cluster, [gone, beyond, away, unknown], "delays") == {gone: "topic gone", beyond: "queue gone"}


def test_a_topic_is_found_out_to_be_gone_by_reading_it(mq: EmbeddedRocketMQ, cluster: Cluster) -> None:
    queue = MessageQueue("short", "broker-b", 0)
    with mq.admin() as admin:
        admin.create_topic("short", queues=1)
    assert gone_queues(cluster, [queue], "delays") == {}
    with mq.admin() as admin:
        admin.delete_topic("short")
    assert gone_queues(cluster, [queue, QUEUES[2]], "delays") == {queue: "topic gone"}


@pytest.mark.parametrize("streaming", [False, True])
def test_a_pattern_of_topics_is_refused_in_one_sentence(proxy_addr: str, streaming: bool) -> None:
    source = RocketMQDataSource({"namesrvaddr": proxy_addr, "topicspattern": "fl.*", "startingoffsets": "earliest"})
    sentence = (
        f"topicsPattern is 'fl.*', and the proxy at {proxy_addr} lists no topics; name them in the option topics, or "
    )
    ask_once = partial(first_batch, source.streamReader(source.schema()))
    with pytest.raises(ConfigurationError) as raised:
        (ask_once if streaming else source.reader(source.schema()).partitions)()
    assert str(raised.value).startswith(sentence)


def test_the_retry_topic_is_made_before_anybody_asks_where_it_is(
    mq: EmbeddedRocketMQ, reader: Readers, asked: list[Command], proxy_addr: str
) -> None:
    """Otherwise the proxy remembers for 20 s that there is none."""
    send(mq, 1, queue=QUEUES[2])
    stream = reader(group="delays", startingoffsets="earliest", includeretry="true", retrytimeoutms="2000")
    stream.prepareForTriggerAvailableNow()
    end, rows = first_batch(stream)
    assert rows == [1]
    about = [command for command in asked if "%RETRY%delays" in command.ext_fields.values()]
    made = [command.ext_fields["bname"] for command in asked if command.code == RequestCode.CONSUMER_SEND_MSG_BACK]
    assert sorted(made) == ["broker-a", "broker-b"]
    assert asked.index(about[0]) > max(
        i for i, one in enumerate(asked) if one.code == RequestCode.CONSUMER_SEND_MSG_BACK
    )
    message = stored(mq)[0]
    send_back(
        [SendBackRequest("broker-b", message.commit_log_offset, delay_level=1)], group="delays", namesrv_addr=proxy_addr
    )
    stream._planner._target = None
    mq.wait_until(lambda: (after := ask(stream, end)) != end and read(stream, end, after) == [1])


def test_a_transactional_write_is_refused_before_anything_is_sent(
    mq: EmbeddedRocketMQ, proxy_addr: str, asked: list[Command]
) -> None:
    options = {"namesrvaddr": proxy_addr, "topic": "flights", "delivery": "transactional", "group": "exact"}
    source = RocketMQDataSource(options)
    sentence = (
        f"delivery is transactional, and {proxy_addr} is a proxy, .*use delivery=idempotent, or the address of a name"
    )
    body = StructType([StructField("body", BinaryType())])
    for make in (source.writer, source.streamWriter):
        with pytest.raises(ConfigurationError, match=sentence):
            make(body, False)
    with pytest.raises(ConfigurationError, match=sentence):  # sprocketmq settle
        Responder.at(sink_options(options), frozenset({"flights"}))
    assert not codes(asked).keys() & {RequestCode.SEND_MESSAGE_V2, RequestCode.END_TRANSACTION}
    assert stored(mq) == []


@pytest.mark.parametrize("topic", [{"topic": "flights"}, {}])
def test_rows_that_cannot_be_messages_become_dead_letters(
    mq: EmbeddedRocketMQ, proxy_addr: str, topic: dict[str, str]
) -> None:
    sender = MessageSender(sink_options({"namesrvAddr": proxy_addr, "group": "sink", "onError": "dlq", **topic}))
    rows = [{"body": "good", "topic": "flights"}, {"body": None, "topic": "flights"}]
    sender.send(pa.RecordBatch.from_pylist(rows, pa.schema({"body": pa.string(), "topic": pa.string()})))
    assert [letter.properties["RETRY_TOPIC"] for letter in stored(mq, "%DLQ%sink")] == ["flights"]


@pytest.mark.parametrize(
    # Only the first batch for a FIFO topic is sent in vain, and each single row for a NORMAL one.
    ("topic_type", "rows", "in_vain"),
    [("FIFO", 5, 1), ("FIFO", 1, 0), ("NORMAL", 5, 0), ("NORMAL", 1, 2)],
)
def test_rows_with_a_sharding_key_go_to_topics_of_both_types(
    mq: EmbeddedRocketMQ, topic_type: str, rows: int, in_vain: int
) -> None:
    """A proxy takes a sharding key for FIFO, and sees none in a batch."""
    form, seen = (
        (RequestCode.SEND_BATCH_MESSAGE, "NORMAL") if topic_type == "FIFO" else (RequestCode.SEND_MESSAGE_V2, "FIFO")
    )
    remark = f"TopicMessageType validate failed, the expected type is {topic_type}, but actual type is {seen}"
    refused = mq.faults.fail(form, ResponseCode.MESSAGE_ILLEGAL, remark, times=None)
    sender = MessageSender(sink_options({"namesrvAddr": mq.namesrv_addr, "topic": "flights"}))
    bodies = [str(number).encode() for number in range(rows)]
    batch = {"body": bodies, "shardingKey": ["N14228"] * rows}
    for _ in range(2):
        sender.send(pa.RecordBatch.from_pydict(batch, pa.schema({"body": pa.binary(), "shardingKey": pa.string()})))
    assert [message.body for message in mq.messages("flights")] == bodies * 2
    assert {message.properties["__SHARDINGKEY"] for message in mq.messages("flights")} == {"N14228"}
    assert refused.hits == in_vain


def test_a_type_that_neither_form_has_is_told_as_the_first_was(mq: EmbeddedRocketMQ) -> None:
    remark = "TopicMessageType validate failed, the expected type is TRANSACTION, but actual type is "
    for code, seen in ((RequestCode.SEND_BATCH_MESSAGE, "NORMAL"), (RequestCode.SEND_MESSAGE_V2, "FIFO")):
        mq.faults.fail(code, ResponseCode.MESSAGE_ILLEGAL, remark + seen, times=None)
    sender = MessageSender(sink_options({"namesrvAddr": mq.namesrv_addr, "topic": "flights"}))
    batch = {"body": [b"1", b"2"], "shardingKey": ["N14228"] * 2}
    with pytest.raises(RemoteError, match=r"the topic takes TRANSACTION messages \(.*\), and this one is NORMAL"):
        sender.send(pa.RecordBatch.from_pydict(batch, pa.schema({"body": pa.binary(), "shardingKey": pa.string()})))


def test_spark_checkpoint_moves_a_queue_to_the_ends_that_the_broker_has(
    mq: EmbeddedRocketMQ, proxy_addr: str, tmp_path: Path
) -> None:
    send(mq, 1, 2, 3, queue=QUEUES[3])
    target = Target(proxy_addr)
    assert (_offset("earliest", QUEUES[3], target), _offset("latest", QUEUES[3], target)) == (0, 3)
    with pytest.raises(ConfigurationError, match="flights/broker-b/7 does not exist"):
        _offset("latest", MessageQueue("flights", "broker-b", 7), target)
