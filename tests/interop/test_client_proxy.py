# SPDX-License-Identifier: Apache-2.0
"""Our client through Apache's proxy, whose address is name server and every broker at once."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import sprocketmq as rmq
from interop.apache_proxy import ApacheProxy
from interop.peers import APACHE_5, APACHE_55, ApacheCluster, JavaProgram, LocalProxy, poll_until
from interop.remoting import trusting_anybody
from interop.shared_servers import FAST
from interop.test_access import BOSS, USERS

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SUCCESS = rmq.ConsumeOrderlyStatus.SUCCESS
_numbers = itertools.count(1)


def _name(kind: str) -> str:
    return f"{kind}-{os.getpid()}-{next(_numbers)}"


def _topic(proxy: ApacheProxy, message_type: str = "NORMAL", queues: int = 4) -> str:
    topic = _name(message_type.lower())
    proxy.create_topic(topic, queues, message_type)
    return topic


def _producer(proxy: ApacheProxy, **options: Any) -> rmq.Producer:
    return rmq.Producer("ours", namesrv_addr=proxy.namesrv_addr, instance_name=_name("p"), **options)


def _consumer(
    proxy: ApacheProxy, group: str, topic: str, seen: Any, expression: Any = "*", **options: Any
) -> rmq.PushConsumer:
    consumer = rmq.PushConsumer(
        group, namesrv_addr=proxy.namesrv_addr, consume_from_where=FIRST, instance_name=_name("c"), **options
    )
    consumer.subscribe(topic, expression)
    consumer.on_message(seen.append if isinstance(seen, list) else seen)
    return consumer


def _bodies(messages: list[rmq.MessageExt]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


def _direct(proxy: ApacheProxy) -> rmq.Admin:
    """Asks the brokers themselves."""
    return rmq.Admin(namesrv_addr=proxy.clusters[0].namesrv_addr)


def test_every_form_of_sending_arrives(proxy):
    topic, later, ordered = _topic(proxy), _topic(proxy, "DELAY"), _topic(proxy, "FIFO")
    seen: list[rmq.MessageExt] = []
    with ExitStack() as running:
        for each in (topic, later, ordered):
            running.enter_context(_consumer(proxy, _name("g"), each, seen))
        producer = running.enter_context(_producer(proxy))
        producer.send(rmq.Message(topic, b"one", tags="UA", keys="k", properties={"y": "1"}))
        producer.send_batch([rmq.Message(topic, b"b%d" % number) for number in range(3)])
        producer.send_oneway(rmq.Message(topic, b"oneway"))
        producer.send_async(rmq.Message(topic, b"z" * 9_000)).result(30)
        producer.send(rmq.Message(ordered, b"fifo"), sharding_key="N1")
        producer.send(rmq.Message(later, b"later"), delay_level=1)
        producer.send(rmq.Message(later, b"timed"), deliver_time_ms=int(time.time() * 1000) + 1_500)
        poll_until(lambda: len(seen) >= 9, "all messages arrive")
    wanted = ["b0", "b1", "b2", "fifo", "later", "one", "oneway", "timed", "z" * 9_000]
    assert _bodies(seen) == wanted
    assert {message.broker_name for message in seen} == {"broker-a"}


def test_a_failed_message_is_retried_up_to_its_dead_letter(proxy):
    """The retry topic is there before the first failure, so the delay decides when the message comes again, not the next look."""
    topic, group = _topic(proxy), _name("retries")
    tries: list[int] = []

    def fail(message: rmq.MessageExt) -> None:
        tries.append(message.reconsume_times)
        raise rmq.RetryLater(delay_ms=1_000)

    with (
        _producer(proxy) as producer,
        _direct(proxy) as admin,
        _consumer(proxy, group, topic, fail, max_reconsume_times=2),
    ):
        assert f"%RETRY%{group}" in admin.topics()
        sent = producer.send(rmq.Message(topic, b"poison"))
        poll_until(lambda: tries == [0, 1, 2], "it was tried three times")
        with rmq.DeadLetters(group, namesrv_addr=proxy.namesrv_addr) as dead:
            poll_until(lambda: dead.count() == 1, "it is a dead letter")
            assert [letter.message_id for letter in dead.read()] == [sent.message_id]


def test_a_java_member_shares_the_group_with_ours(proxy):
    """A proxy tells no member of another; each looks every 20 s, and until then two may read a queue."""
    topic, group = _topic(proxy), _name("mixed")
    mine: list[rmq.MessageExt] = []
    java = JavaProgram(proxy.version, "PushConsumer", namesrv=proxy.namesrv_addr, topic=topic, group=group)
    with java.ready(), _consumer(proxy, group, topic, mine), _producer(proxy) as producer:
        with rmq.Admin(namesrv_addr=proxy.namesrv_addr) as admin:
            poll_until(lambda: len(admin.consumer_ids(group)) == 2, "both are members")
        for number in range(40):
            producer.send(rmq.Message(topic, b"%d" % number))
        theirs: set[str] = set()
        wanted = {str(number) for number in range(40)}

        def all_came() -> bool:
            with contextlib.suppress(TimeoutError):
                theirs.add(java.read_events("message", 1, 0.1)[0]["body"])
            return theirs | set(_bodies(mine)) >= wanted

        poll_until(all_came, "all messages came")
    assert mine
    assert theirs


def test_orderly_consumers_keep_the_order_of_each_key(proxy):
    topic, group = _topic(proxy, "FIFO"), _name("orderly")
    seen: dict[str, list[int]] = {}

    def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        for message in messages:
            key, _, number = message.body.decode().partition(":")
            seen.setdefault(key, []).append(int(number))
        return SUCCESS

    with ExitStack() as running:
        producer = running.enter_context(_producer(proxy))
        for _ in range(2):
            consumer = rmq.PushConsumer(
                group, namesrv_addr=proxy.namesrv_addr, consume_from_where=FIRST, instance_name=_name("c")
            )
            consumer.subscribe(topic)
            consumer.orderly_listener(in_order)
            running.enter_context(consumer)
        for number, key in itertools.product(range(8), "abc"):
            producer.send(rmq.Message(topic, f"{key}:{number}".encode()), sharding_key=key)
        poll_until(lambda: sum(map(len, seen.values())) >= 24, "all messages were consumed")
    assert seen == {key: list(range(8)) for key in "abc"}


@pytest.mark.parametrize("version", [APACHE_5, APACHE_55])
def test_a_transaction_ends_as_the_check_says(servers, version):
    """The proxy knows the place of a half message only when it has passed a check on: an end that comes sooner has no effect there
    (TransactionProcessor.endTransaction). 5.5.0 takes a whole core after checks each second: at servers of its own."""
    with ExitStack() as own:
        if version == APACHE_5:
            _check_transactions(servers.proxy(version))
        else:
            _check_transactions(own.enter_context(ApacheProxy(own.enter_context(ApacheCluster(version, **FAST)))))


def _check_transactions(proxy: ApacheProxy) -> None:
    topic = _topic(proxy, "TRANSACTION")
    seen: list[rmq.MessageExt] = []
    asked: list[rmq.MessageExt] = []

    def check(message: rmq.MessageExt) -> rmq.LocalTransactionState:
        asked.append(message)
        state = rmq.LocalTransactionState
        return state.ROLLBACK_MESSAGE if message.body == b"ROLLBACK_MESSAGE" else state.COMMIT_MESSAGE

    options = {"namesrv_addr": proxy.namesrv_addr, "instance_name": _name("tx")}
    with (
        rmq.TransactionProducer(_name("tx"), check=check, **options) as producer,
        _consumer(proxy, _name("g"), topic, seen),
    ):
        for state in rmq.LocalTransactionState:
            message = rmq.Message(topic, state.name.encode())
            producer.send_in_transaction(message, execute=lambda _, state=state: state)
        poll_until(
            lambda: len({message.body for message in asked}) == 3 and len(seen) >= 2, "the checks were answered", 120
        )
    assert set(_bodies(seen)) == {"COMMIT_MESSAGE", "UNKNOWN"}
    assert {message.broker_name for message in asked} == {"broker-a"}


def test_filters_by_tag_and_by_sql92(proxy):
    topic = _topic(proxy)
    by_tag: list[rmq.MessageExt] = []
    by_sql: list[rmq.MessageExt] = []
    with (
        _consumer(proxy, _name("tags"), topic, by_tag, "UA || DL"),
        _consumer(proxy, _name("sql"), topic, by_sql, rmq.sql92("distance > 2")),
        _producer(proxy) as producer,
    ):
        for number, tag in enumerate(("UA", "AA", "DL", "WN", "UA")):
            producer.send(rmq.Message(topic, b"%d" % number, tags=tag, properties={"distance": str(number)}))
        poll_until(lambda: len(by_tag) >= 3 and len(by_sql) >= 2, "both groups have theirs")
    assert (_bodies(by_tag), _bodies(by_sql)) == (["0", "2", "4"], ["3", "4"])
    wrong = _consumer(proxy, _name("sql"), topic, [], rmq.sql92("distance >> 2"))
    with pytest.raises(rmq.ConfigurationError, match="the SQL92 expression is not allowed"):
        wrong.start()


def test_a_pull_consumer_goes_where_it_is_told(proxy):
    topic, group = _topic(proxy, queues=1), _name("pull")
    queue = rmq.MessageQueue(topic, "broker-a", 0)
    options = {"namesrv_addr": proxy.namesrv_addr, "consume_from_where": FIRST, "auto_commit": False}
    with _producer(proxy) as producer:
        for number in range(10):
            producer.send(rmq.Message(topic, b"%d" % number))
    with rmq.PullConsumer(group, **options) as consumer:
        consumer.assign([queue])
        got: list[rmq.MessageExt] = []
        poll_until(lambda: got.extend(consumer.poll(timeout_ms=1_000)) or len(got) >= 10, "all are pulled")
        assert (consumer.min_offset(queue), consumer.max_offset(queue)) == (0, 10)
        assert consumer.offset_for_timestamp(queue, got[5].store_timestamp_ms) <= 5
        consumer.seek(queue, 7)
        consumer.commit()
        assert consumer.committed(queue) == 7
    with rmq.PullConsumer(group, **options) as again:
        again.assign([queue])
        rest: list[rmq.MessageExt] = []
        poll_until(lambda: rest.extend(again.poll(timeout_ms=1_000)) or len(rest) >= 3, "it goes on")
    assert _bodies(rest) == ["7", "8", "9"]


@pytest.mark.parametrize(
    ("message_type", "how", "sentence"),
    [
        ("FIFO", {}, "the topic takes FIFO messages .* send it alone, with sharding_key"),
        ("NORMAL", {"sharding_key": "a"}, "the topic takes NORMAL messages .* this one is FIFO"),
        ("DELAY", {}, "the topic takes DELAY messages .* delay_level or deliver_time_ms"),
        ("TRANSACTION", {}, "the topic takes TRANSACTION messages .*send_in_transaction"),
        ("", {}, "the proxy knows no such topic; create it"),
    ],
)
def test_what_a_topic_does_not_take_is_said_in_a_users_words(proxy, message_type, how, sentence):
    topic = _topic(proxy, message_type) if message_type else _name("nowhere")
    with _producer(proxy) as producer, pytest.raises(rmq.RemoteError, match=sentence):
        producer.send(rmq.Message(topic, b"x"), **how)


def test_replies_do_not_pass_and_both_sides_are_told(proxy):
    topic = _topic(proxy)
    refusals: list[str] = []
    with _producer(proxy) as producer:

        def answer(message: rmq.MessageExt) -> None:
            try:
                producer.reply(message, b"here")
            except rmq.RequestNotServed as error:
                refusals.append(str(error))

        with (
            _consumer(proxy, _name("answers"), topic, answer),
            pytest.raises(rmq.RequestTimeout, match="Apache's proxy passes no replies on"),
        ):
            producer.request(rmq.Message(topic, b"where?"), timeout_ms=5_000)
    assert [f"the proxy at {proxy.namesrv_addr} does not serve SEND_REPLY_MESSAGE_V2" in text for text in refusals] == [
        True
    ]


@pytest.mark.nightly
def test_progress_is_kept_and_a_killed_proxy_loses_nothing(java_peers, proxy):
    topic, group = _topic(proxy), _name("kill")
    seen: list[rmq.MessageExt] = []
    with ApacheProxy(*proxy.clusters) as own:
        with _consumer(own, group, topic, seen), _producer(own, retry_times_when_send_failed=10) as producer:
            producer.send(rmq.Message(topic, b"before"))
            poll_until(lambda: len(seen) == 1, "the first message came")
            own.kill()
            own.start()
            poll_until(lambda: _sent(producer, topic), "a message is sent again")
            poll_until(lambda: "after" in _bodies(seen), "the consumer goes on")
        with rmq.Admin(namesrv_addr=own.namesrv_addr) as admin:
            offsets = [admin.consumer_offset(group, queue) or 0 for queue in admin.queues(topic)]
        assert sum(offsets) == len(seen)


def _sent(producer: rmq.Producer, topic: str) -> bool:
    try:
        producer.send(rmq.Message(topic, b"after"))
    except rmq.RocketMQError:
        return False
    return True


# -- two brokers behind one address -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_brokers(java_peers: None) -> Iterator[ApacheProxy]:
    with (
        ApacheCluster(APACHE_5, **FAST) as first,
        ApacheCluster(APACHE_5, namesrv_addr=first.namesrv_addr, brokerName="broker-b", **FAST) as second,
        ApacheProxy(first, second) as proxy,
    ):
        yield proxy


@pytest.mark.nightly
def test_all_queues_of_two_brokers_are_read_once(two_brokers):
    topic, group = _topic(two_brokers), _name("both")
    seen: list[rmq.MessageExt] = []

    def fail_once(message: rmq.MessageExt) -> None:
        seen.append(message)
        if message.reconsume_times == 0 and message.body.endswith(b"0"):
            raise rmq.RetryLater(delay_ms=1_000)

    with _producer(two_brokers) as producer, _consumer(two_brokers, group, topic, fail_once):
        for number in range(80):
            producer.send(rmq.Message(topic, b"%d" % number))
        poll_until(lambda: len(seen) >= 88, "all came, and eight of them again")
    bodies = Counter(message.body.decode() for message in seen)
    assert bodies == Counter({str(number): 2 if number % 10 == 0 else 1 for number in range(80)})
    with _direct(two_brokers) as admin:
        stored = {queue: offsets.max_offset for queue, offsets in admin.topic_stats(topic).items()}
        for queue, end in stored.items():
            read = [
                message
                for message in seen
                if rmq.MessageQueue(message.topic, message.broker_name, message.queue_id) == queue
            ]
            assert len({message.body for message in read if not message.reconsume_times}) == end
            assert admin.consumer_offset(group, queue) == end
    assert {queue.broker_name for queue in stored} == {"broker-a", "broker-b"}


@pytest.mark.nightly
def test_orderly_locks_and_offsets_reach_the_broker_that_is_meant(two_brokers):
    topic, group = _topic(two_brokers, "FIFO"), _name("locks")
    seen: list[rmq.MessageExt] = []

    def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        seen.extend(messages)
        return SUCCESS

    consumer = rmq.PushConsumer(
        group, namesrv_addr=two_brokers.namesrv_addr, consume_from_where=FIRST, instance_name=group
    )
    consumer.subscribe(topic)
    consumer.orderly_listener(in_order)
    with _producer(two_brokers) as producer, consumer:
        for number in range(64):
            producer.send(rmq.Message(topic, b"%d" % number), sharding_key=f"key-{number % 16}")
        poll_until(lambda: len(seen) >= 64, "all messages were consumed")
    assert {message.broker_name for message in seen} == {"broker-a", "broker-b"}
    with rmq.Admin(namesrv_addr=two_brokers.namesrv_addr) as behind, _direct(two_brokers) as admin:
        for queue in admin.queues(topic):
            assert behind.max_offset(queue) == admin.max_offset(queue) == admin.consumer_offset(group, queue)


@pytest.mark.nightly
def test_a_check_of_two_brokers_names_none_that_is_wrong(two_brokers):
    topic = _topic(two_brokers, "TRANSACTION")
    asked: list[rmq.MessageExt] = []
    seen: list[rmq.MessageExt] = []

    def check(message: rmq.MessageExt) -> rmq.LocalTransactionState:
        asked.append(message)
        return rmq.LocalTransactionState.COMMIT_MESSAGE

    options = {"namesrv_addr": two_brokers.namesrv_addr, "instance_name": _name("tx")}
    with (
        rmq.TransactionProducer(_name("tx"), check=check, **options) as producer,
        _consumer(two_brokers, _name("g"), topic, seen),
    ):
        for number in range(8):
            message = rmq.Message(topic, b"%d" % number)
            producer.send_in_transaction(message, execute=lambda _: rmq.LocalTransactionState.UNKNOWN)
        poll_until(lambda: len(seen) >= 8, "the checks were answered")
    assert {message.broker_name for message in asked} == {
        ""
    }  # the check does not say it, and the address is both brokers'
    assert {message.broker_name for message in seen} == {"broker-a", "broker-b"}


# -- TLS, accounts, namespaces ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured(java_peers: None) -> Iterator[ApacheProxy]:
    with ApacheCluster(APACHE_55, **FAST, **USERS) as cluster, ApacheProxy(cluster, tls=True) as proxy:
        yield proxy


@pytest.mark.nightly
def test_tls_and_the_keys_of_an_account(secured):
    topic = _topic(secured)
    options: dict[str, Any] = {"ssl_context": trusting_anybody(), "access_key": BOSS[0], "secret_key": BOSS[1]}
    seen: list[rmq.MessageExt] = []
    with _producer(secured, **options) as producer, _consumer(secured, _name("g"), topic, seen, **options):
        producer.send(rmq.Message(topic, b"over TLS"))
        poll_until(lambda: _bodies(seen) == ["over TLS"], "the message came")
    with (
        _producer(secured, **{**options, "secret_key": "wrong-secret"}) as stranger,
        pytest.raises(rmq.RemoteError, match="[Cc]heck signature failed"),
    ):
        stranger.send(rmq.Message(topic, b"never"))
    with (
        _producer(secured, access_key=BOSS[0], secret_key=BOSS[1]) as plain,
        pytest.raises(rmq.NetworkError, match="TLS"),
    ):
        plain.send(rmq.Message(topic, b"never"))


def test_a_namespace_of_5_keeps_equal_names_apart(proxy):
    """The broker takes the namespace from the fields nsd and ns, which a proxy passes on with each request."""
    topic = _topic(proxy)
    seen: list[rmq.MessageExt] = []
    options = {"namespace_v2": "ours"}
    with _producer(proxy, **options) as producer, _consumer(proxy, _name("g"), topic, seen, **options):
        producer.send(rmq.Message(topic, b"named"))
        poll_until(lambda: _bodies(seen) == ["named"], "the message came")


# -- LOCAL mode ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("version", [APACHE_5, APACHE_55])
def test_in_local_mode_clients_use_the_name_server_and_the_proxy_says_so(java_peers, version):
    topic, group = _name("local"), _name("local")
    came: list[tuple[str, int]] = []
    ordered: list[rmq.MessageExt] = []

    def fail_once(message: rmq.MessageExt) -> None:
        came.append((message.body.decode(), message.reconsume_times))
        if message.reconsume_times == 0:
            raise ValueError("again")

    with LocalProxy(version, **FAST) as local:
        local.create_topic(topic, 2)
        options = {"namesrv_addr": local.namesrv_addr, "consume_from_where": FIRST}
        retrying = rmq.PushConsumer(group, **options)
        retrying.subscribe(topic)
        retrying.on_message(fail_once)
        in_order = rmq.PushConsumer(f"{group}-ordered", **options)
        in_order.subscribe(topic)
        in_order.orderly_listener(lambda messages, context: ordered.extend(messages) or SUCCESS)
        commit = rmq.LocalTransactionState.COMMIT_MESSAGE
        with rmq.TransactionProducer("ours", check=lambda _: commit, namesrv_addr=local.namesrv_addr) as producer:
            producer.send(rmq.Message(topic, b"one"))
            producer.send_in_transaction(rmq.Message(topic, b"two"), execute=lambda _: commit)
            with retrying, in_order, rmq.PullConsumer(f"{group}-pull", **options) as pulling:
                pulling.subscribe(topic)
                pulled: list[rmq.MessageExt] = []
                poll_until(lambda: pulled.extend(pulling.poll(timeout_ms=500)) or len(pulled) == 2, "both are pulled")
                poll_until(lambda: len(came) == 4 and len(ordered) == 2, "both come, and again")
        for port in (local.proxy_addr, local.endpoints):
            with (
                rmq.Producer("ours", namesrv_addr=port, instance_name=port) as wrong,
                pytest.raises(rmq.ConnectionLost, match=f"^{local.endpoints} speaks HTTP/2, .* a name server"),
            ):
                wrong.send(rmq.Message(topic, b"never"))
    assert sorted(came) == [("one", 0), ("one", 1), ("two", 0), ("two", 1)]
