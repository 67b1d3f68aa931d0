# SPDX-License-Identifier: Apache-2.0
"""What a client does when its name server is a proxy: the embedded servers look like one here. tests/interop has Apache's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from recorder import QUEUE

import sprocketmq as rmq
from embedded_proxy import embedded_proxy
from sprocketmq.net.connection import Connection, RequestHandler
from sprocketmq.testing import SENDS, EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.sys_flag import PULL_SUSPEND

NOT_SERVED = (
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
)


@pytest.fixture
def proxy(rocketmq: EmbeddedRocketMQ) -> Iterator[EmbeddedRocketMQ]:
    """Routes with the mark of a proxy; heartbeats make no retry topic; a part of what it does not serve."""
    faults = rocketmq.namesrv.intercept
    assert faults is not None

    def marked(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
        answer = faults(connection, command, handler)
        if answer is not None:
            answer.ext_fields[props.MSG_REGION] = "DefaultRegion"
        return answer

    rocketmq.namesrv.intercept = marked
    rocketmq.faults.fail(NOT_SERVED, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported", times=None)
    # What a client asks a server to learn its kind; the broker's address knows routes, too.
    route, none = RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST
    any_topic = {"topic": "SELF_TEST_TOPIC"}.items()
    rocketmq.faults.fail(route, none, "", times=None, when=lambda command: any_topic <= command.ext_fields.items())
    yield rocketmq
    rocketmq.namesrv.intercept = faults


def test_a_consumer_has_its_retry_topic_made_before_it_asks_where_it_is(proxy, consumers):
    """Otherwise the proxy remembers that there is none, and the first retry comes 40 s later."""
    asked: list[str] = []

    def note(command: Command) -> bool:
        if command.code == RequestCode.CONSUMER_SEND_MSG_BACK:
            asked.append(f"made at {command.ext_fields['bname']}")
        elif command.ext_fields.get("topic") == "%RETRY%delays":
            asked.append("route")
        return False

    proxy.faults.drop((RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.GET_ROUTEINFO_BY_TOPIC), None, when=note)
    consumers(lambda message: None)
    proxy.advance_until(lambda: asked.count("route") > 1)
    assert asked[:2] == ["made at broker-a", "route"]
    assert asked.count("made at broker-a") == 1
    assert proxy.broker.topics.get("%RETRY%delays") is not None
    assert proxy.messages("%RETRY%delays") == proxy.messages("%DLQ%delays") == []


def test_a_broadcasting_consumer_makes_none(proxy, consumers):
    made = proxy.faults.drop(RequestCode.CONSUMER_SEND_MSG_BACK, None, when=lambda command: False)
    consumers(lambda message: None, message_model=rmq.MessageModel.BROADCASTING)
    proxy.advance(60_000)
    assert made.hits == 0


def test_what_it_does_not_serve_is_said_in_one_sentence(proxy):
    sentence = f"^the proxy at {proxy.namesrv_addr} does not serve"
    with proxy.admin() as admin:
        with pytest.raises(rmq.RequestNotServed, match=f"{sentence} GET_BROKER_CLUSTER_INFO; use the ") as raised:
            admin.cluster_info()
        assert (raised.value.code, raised.value.address) == (3, proxy.namesrv_addr)
        with pytest.raises(rmq.RequestNotServed, match=f"{sentence} GET_ALL_TOPIC_LIST_FROM_NAMESERVER; name each"):
            admin.topics()


def test_a_filter_that_cannot_be_read_is_refused_because_the_proxy_accepts_any(proxy, consumers):
    proxy.faults.fail(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SUCCESS, "", times=None)
    refusal = "^the SQL92 expression is not allowed: '> 3' stands at"
    with pytest.raises(rmq.ConfigurationError, match=refusal):
        consumers(lambda message: None, expression=rmq.sql92("distance >> 3"))
    consumers(lambda message: None, group="others", expression=rmq.sql92("distance > 3"))
    with proxy.pull_consumer("pulling") as pulling, proxy.admin() as admin:
        with pytest.raises(rmq.ConfigurationError, match=refusal):
            pulling.subscribe("flights", rmq.sql92("distance >> 3"))
        with pytest.raises(rmq.ConfigurationError, match=refusal):
            pulling.assign([QUEUE], rmq.sql92("distance >> 3"))
        assert not pulling.assigned_queues
        with pytest.raises(rmq.ConfigurationError, match=refusal):
            admin.read_onward({QUEUE: 0}, expression=rmq.sql92("distance >> 3"))
        assert admin.read_onward({QUEUE: 0}, expression=rmq.sql92("distance > 3"))[0] == []


def test_a_topic_that_does_not_exist_is_to_be_made_in_the_console(proxy):
    route, none = RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST
    proxy.faults.fail(route, none, "", times=None)
    with (
        proxy.producer() as producer,
        pytest.raises(rmq.TopicNotExist, match="'flights' has no route: the proxy knows none; create it"),
    ):
        producer.send(rmq.Message("flights", b"x"))


def test_a_message_of_another_type_than_its_topic_is_refused_in_a_users_words(proxy):
    remark = "TopicMessageType validate failed, the expected type is FIFO, but actual type is NORMAL"
    proxy.faults.fail(SENDS, ResponseCode.MESSAGE_ILLEGAL, remark, times=None)
    with proxy.producer() as producer, pytest.raises(rmq.RemoteError, match="the topic takes FIFO messages") as raised:
        producer.send(rmq.Message("flights", b"x"))
    assert raised.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_reply_that_the_proxy_does_not_pass_on_says_so_on_both_sides(proxy, producer, consumers):
    proxy.create_topic("questions", queues=1)
    replies = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
    proxy.faults.fail(replies, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported", times=None)
    refusals: list[str] = []

    def answer(message: rmq.MessageExt) -> None:
        try:
            producer.reply(message, b"here")
        except rmq.RequestNotServed as error:
            refusals.append(str(error))

    consumers(answer, topic="questions", group="answers")
    asking = producer.request_async(rmq.Message("questions", b"where?"), timeout_ms=2_000)
    proxy.advance_until(lambda: refusals)
    with pytest.raises(rmq.RequestTimeout, match="passes no replies on"):
        asking.result(30)
    assert "does not serve SEND_REPLY_MESSAGE_V2; use a topic" in refusals[0]


def test_the_groups_retry_policy_is_not_followed_and_the_log_says_so_once(proxy, producer, consumers, caplog):
    code = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    proxy.faults.fail(code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported", times=None)
    failed: list[int] = []

    def fail(message: rmq.MessageExt) -> None:
        failed.append(message.reconsume_times)
        raise ValueError("again")

    consumers(fail, follow_group_retry_policy=True)
    producer.send(rmq.Message("flights", b"x"))
    proxy.advance_until(lambda: max([0, *failed]) == 4)  # some minutes later
    assert [record.getMessage().count("the broker chooses") for record in caplog.records].count(1) == 1


def test_a_transaction_ends_with_its_check_and_the_log_says_so_once(proxy, caplog):
    commit = rmq.LocalTransactionState.COMMIT_MESSAGE
    with rmq.TransactionProducer(
        "ops", check=lambda message: commit, namesrv_addr=proxy.namesrv_addr, clock=proxy.clock
    ) as producer:
        for _ in range(2):
            producer.send_in_transaction(rmq.Message("flights", b"x"), execute=lambda message: commit)
    assert [record.getMessage().count("when the broker checks it") for record in caplog.records].count(1) == 1


QUEUES = [rmq.MessageQueue("flights", "broker-a", at) for at in range(8)]


@pytest.fixture
def filled(rocketmq: EmbeddedRocketMQ) -> EmbeddedRocketMQ:
    """Two messages in each of eight queues."""
    rocketmq.create_topic("flights", queues=8)
    with rocketmq.producer() as producer:
        for queue in QUEUES:
            producer.send_batch([rmq.Message("flights", b"%d" % number) for number in range(2)], queue=queue)
    return rocketmq


@pytest.mark.parametrize("kind", ["concurrent", "orderly", "pull"])
def test_no_answer_of_a_consumer_is_dropped(filled, kind):
    """A proxy drops answers for a connection that has not taken earlier ones, and the pull ends by its timeout."""
    seen: list[rmq.MessageExt] = []
    options = {"clock": filled.clock, "consume_from_where": rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET}
    dropped: list[bytes] = []
    with embedded_proxy(filled, [filled.broker], dropped) as proxy_addr:
        if kind == "pull":
            with rmq.PullConsumer("delays", namesrv_addr=proxy_addr, **options) as pulling:
                pulling.subscribe("flights")

                def took_all() -> bool:
                    seen.extend(pulling.poll(timeout_ms=0))
                    return len(seen) == 16

                filled.wait_until(took_all)
        else:
            consumer = rmq.PushConsumer("delays", namesrv_addr=proxy_addr, **options)
            consumer.subscribe("flights")
            if kind == "orderly":

                @consumer.orderly_listener
                def listen(messages: list[rmq.MessageExt], context: object) -> rmq.ConsumeOrderlyStatus:
                    seen.extend(messages)
                    return rmq.ConsumeOrderlyStatus.SUCCESS
            else:
                consumer.on_message(seen.append)
            with consumer:
                filled.wait_until(lambda: len(seen) == 16)
    assert not dropped


def test_the_answer_to_a_pull_that_waits_is_short(proxy, consumers):
    """After a burst the waiting pulls of all queues are answered in the same moment."""
    proxy.create_topic("flights", queues=2)
    asked: set[tuple[bool, int]] = set()

    def note(command: Command) -> bool:
        fields = command.ext_fields
        asked.add((bool(int(fields["sysFlag"]) & PULL_SUSPEND), int(fields["maxMsgNums"])))
        return False

    proxy.faults.drop(RequestCode.PULL_MESSAGE, None, when=note)
    consumers(lambda message: None, pull_batch_size=20)
    proxy.advance_until(lambda: len(asked) > 1)
    assert asked == {(False, 20), (True, 1)}


def test_no_answer_of_a_reader_is_dropped(filled):
    dropped: list[bytes] = []
    with embedded_proxy(filled, [filled.broker], dropped) as proxy_addr:
        ranges = [(queue, 0, 2) for queue in QUEUES]
        with rmq.QueueReader(proxy_addr, ranges=ranges, retry_timeout_ms=0) as reader:
            assert sum(chunk.end - chunk.start for chunk in reader) == 16
        with rmq.Admin(namesrv_addr=proxy_addr) as admin:
            found, _ = admin.read_onward(dict.fromkeys(QUEUES, 0))
            assert len(found) == 16
    assert not dropped
