# SPDX-License-Identifier: Apache-2.0
"""Each request whose header can name a broker does, for all that clients and Spark send: a proxy refuses those that do not.

The frames of one life of each client class are recorded at the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import sprocketmq as rmq
from inproc.client.recorder import Recorder, send_all
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.read.group_progress import commit_offsets, query_committed
from sprocketmq.spark.read.offset_search import sample_queues, search_by_time
from sprocketmq.spark.read.queue_bounds import queue_bounds
from sprocketmq.spark.retry.send_back import SendBackRequest, send_back
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.requests import declared
from sprocketmq.wire.requests.declaration import AnyRequest, Peer

FIRST: Final = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUEUE: Final = rmq.MessageQueue("flights", "broker-a", 0)
NAMED: Final = {one.code: one for one in declared() if "bname" in getattr(one.header, "__struct_fields__", ())}
# Only brokers send the first; clients send newer codes, and pull by a code that 4.9 knows.
NOT_SENT: Final = {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
}
SENT: Final = sorted(NAMED.keys() - NOT_SENT)


def produce(rocketmq: EmbeddedRocketMQ) -> None:
    with (
        rocketmq.producer() as producer,
        rocketmq.producer("fault", send_latency_fault_enable=True) as other,
    ):
        send_all(producer, ["a", "b"])
        send_all(other, ["c"], sharding_key="k")
        producer.send_batch([rmq.Message("flights", b"d"), rmq.Message("flights", b"e")])
        producer.send_oneway(rmq.Message("flights", b"f"))
        producer.send_async(rmq.Message("flights", b"g")).result(20)
        timed = producer.send(rmq.Message("flights", b"h"), deliver_time_ms=rocketmq.clock.now_ms() + 60_000)
        assert timed.recall_handle
        producer.recall("flights", timed.recall_handle)


def request_and_reply(rocketmq: EmbeddedRocketMQ) -> None:
    with rocketmq.producer() as asking, rocketmq.producer("answers") as answering:
        consumer = rocketmq.push_consumer("answers", consume_from_where=FIRST)
        consumer.subscribe("questions")
        consumer.on_message(lambda message: answering.reply(message, b"here") and None)
        with consumer:
            assert asking.request(rmq.Message("questions", b"where?"), timeout_ms=20_000).body == b"here"


def transactions(rocketmq: EmbeddedRocketMQ) -> None:
    asked = Recorder(lambda message: rmq.LocalTransactionState.COMMIT_MESSAGE)
    with rmq.TransactionProducer(
        "ops", check=asked, namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock
    ) as producer:
        for state in rmq.LocalTransactionState:
            producer.send_in_transaction(rmq.Message("flights", b"t"), execute=lambda message, state=state: state)
        rocketmq.advance_until(lambda: len(asked))


def consume(rocketmq: EmbeddedRocketMQ) -> None:
    """Concurrently with a retry, each for itself, and in order."""
    again = Recorder()

    def fail_once(message: rmq.MessageExt) -> None:
        again(message)
        if not message.reconsume_times:
            raise ValueError("once more")

    consumers = [rocketmq.push_consumer("delays", consume_from_where=FIRST, follow_group_retry_policy=True)]
    consumers.append(
        rocketmq.push_consumer("all", consume_from_where=FIRST, message_model=rmq.MessageModel.BROADCASTING)
    )
    by_time = rmq.ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
    consumers.append(rocketmq.push_consumer("orderly", consume_from_where=by_time, consume_timestamp="20000101000000"))
    for consumer, listener in zip(consumers, (fail_once, Recorder(), None), strict=True):
        consumer.subscribe("flights")
        if listener is not None:
            consumer.on_message(listener)
    ordered = Recorder()
    consumers[2].orderly_listener(lambda messages, context: ordered(messages[0]) or rmq.ConsumeOrderlyStatus.SUCCESS)
    for consumer in consumers:
        consumer.start()
    rocketmq.advance_until(lambda: max([0, *again.times]) > 0 and ordered.messages)
    rocketmq.advance(30_000)  # progress, heartbeats, rebalance
    for consumer in consumers:
        consumer.shutdown()


def pull(rocketmq: EmbeddedRocketMQ) -> None:
    with rocketmq.pull_consumer("pulls", consume_from_where=FIRST) as consumer:
        consumer.assign([QUEUE])
        assert consumer.poll(timeout_ms=20_000)
        consumer.commit()
        consumer.seek_to_end(QUEUE)
        consumer.seek_to_begin(QUEUE)
        consumer.seek(QUEUE, consumer.offset_for_timestamp(QUEUE, 0))
        consumer.committed(QUEUE)


def administer(rocketmq: EmbeddedRocketMQ) -> None:
    with rocketmq.admin() as admin:
        admin.offset_by_time(QUEUE, 0, last=True)
        admin.earliest_store_time_ms(QUEUE)
        admin.reset_offset("pulls", QUEUE, admin.min_offset(QUEUE))
        admin.set_consumer_offset("pulls", QUEUE, admin.consumer_offset("pulls", QUEUE) or 0)
        admin.message_at(QUEUE, admin.max_offset(QUEUE) - 1)
    with rmq.DeadLetters("delays", namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock) as dead:
        dead.count()


def spark(rocketmq: EmbeddedRocketMQ) -> None:
    cluster = Cluster.at(rocketmq.namesrv_addr)
    queues = cluster.queues(["flights"])
    bounds = queue_bounds(cluster, queues)
    cluster.run(lambda: search_by_time(cluster, bounds, dict.fromkeys(queues, 1), "spark"))
    sample_queues(cluster, dict.fromkeys(queues, 0), "spark", 1)
    commit_offsets(cluster, "spark", {QUEUE: 1})
    cluster.run(lambda: query_committed(cluster, "spark", queues))
    message = rocketmq.messages("flights")[0]
    send_back(
        [SendBackRequest("broker-a", message.commit_log_offset)], group="spark", namesrv_addr=rocketmq.namesrv_addr
    )


LIVES: Final[tuple[Callable[[EmbeddedRocketMQ], None], ...]] = (
    produce, request_and_reply, transactions, consume, pull, administer, spark,
)  # fmt: skip


@pytest.fixture(scope="module")
def frames() -> Iterator[dict[int, list[dict[str, str]]]]:
    """The fields of all requests with a broker's name that came to the broker, by code."""
    found: dict[int, list[dict[str, str]]] = {}

    def note(command: Command) -> bool:
        found.setdefault(command.code, []).append(dict(command.ext_fields))
        return False

    with EmbeddedRocketMQ(transactionTimeOut=1000, transactionCheckInterval=1000, recallMessageEnable=True) as rocketmq:
        rocketmq.create_topic("flights", queues=2)
        rocketmq.create_topic("questions", queues=1)
        rocketmq.faults.drop(list(NAMED), None, when=note)
        for life in LIVES:
            life(rocketmq)
        yield found


def _field(request: AnyRequest) -> str:
    header: Any = request.header
    return str(header.__struct_encode_fields__[header.__struct_fields__.index("bname")])


@pytest.mark.parametrize("code", SENT, ids=lambda code: code.name)
def test_a_request_with_a_field_for_the_name_of_its_broker_fills_it(frames, code):
    assert frames[code], "no life sends it"
    assert {fields.get(_field(NAMED[code])) for fields in frames[code]} == {"broker-a"}


def test_no_client_sends_what_is_left_out_here(frames):
    assert not {code for code in NOT_SENT if code in frames and Peer.BROKER in NAMED[code].served_by}
