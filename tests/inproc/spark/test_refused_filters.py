# SPDX-License-Identifier: Apache-2.0
"""An SQL92 expression that the brokers do not take is refused while a read is planned: Apache's filter nothing by it in a pull."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sprocketmq as rmq
from embedded_proxy import second_broker_of
from inproc.spark.as_spark import Readers, ask, first_batch, send
from sprocketmq.broker.handlers.messages.pull_checks import no_property_filter
from sprocketmq.client.remoting import pulls
from sprocketmq.client.remoting.pulls import read_queue
from sprocketmq.errors import ConfigurationError, RemoteError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.records.message import MessageQueue

pytestmark = pytest.mark.usefixtures("the_parser_is_loaded")

REFUSED = r"sql92 is 'a >', which broker broker-a refuses: .*; correct the expression$"
SWITCH_ON = "; set enablePropertyFilter=true at the brokers (`sprocketmq broker config set`), or filter by tags"


@pytest.fixture
def pulls_that_do_not_mind(mq: EmbeddedRocketMQ) -> Iterator[EmbeddedRocketMQ]:
    """What is refused has to be refused without a pull."""
    with mq.faults.fail(RequestCode.PULL_MESSAGE, ResponseCode.SYSTEM_ERROR, "asked too late", times=None) as late:
        yield mq
        assert not late.hits


def test_a_batch_with_a_wrong_expression_is_refused_before_its_tasks(pulls_that_do_not_mind: EmbeddedRocketMQ) -> None:
    mq = pulls_that_do_not_mind
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": "flights", "sql92": "a >"})
    with pytest.raises(ConfigurationError, match=REFUSED):
        source.reader(source.schema()).partitions()


def test_a_stream_with_a_wrong_expression_is_refused_at_its_start_and_after_a_restart(
    pulls_that_do_not_mind: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(pulls_that_do_not_mind, 0, 1)
    begun = readers(startingoffsets="earliest")
    end = ask(begun, begun.initialOffset())
    again = readers(startingoffsets="earliest", sql92="a >")
    with pytest.raises(ConfigurationError, match=REFUSED):
        ask(again, again.initialOffset())
    with pytest.raises(ConfigurationError, match=REFUSED):
        ask(again, end)


def test_a_broker_that_moved_is_asked_at_its_new_place(mq: EmbeddedRocketMQ) -> None:
    given = {"namesrvaddr": mq.namesrv_addr, "topic": "flights"}
    source = RocketMQDataSource(given)
    assert source.reader(source.schema()).partitions() is not None  # the route is known from now on
    mq.broker.stop()
    mq._start_broker(0)
    mq.create_topic("flights")
    wrong = RocketMQDataSource({**given, "sql92": "a >"})
    with pytest.raises(ConfigurationError, match=REFUSED):
        wrong.reader(wrong.schema()).partitions()


def test_each_broker_is_asked_because_their_versions_may_differ(mq: EmbeddedRocketMQ) -> None:
    cluster = Cluster.at(mq.namesrv_addr)

    def pull(address: str, name: str) -> None:
        queue = MessageQueue("flights", name, 0)
        given = {"expression": "a = 1", "expression_type": "SQL92"}
        cluster.engine.run(read_queue(cluster, address, "delays", queue, 0, 1, **given))

    pull(mq.broker_addr, "broker-a")
    with (
        second_broker_of(mq) as broker_b,  # which has no property filters
        mq.faults.fail(RequestCode.PULL_MESSAGE, ResponseCode.SYSTEM_ERROR, "asked too late", times=None),
        pytest.raises(RemoteError, match="does not filter messages by SQL92"),
    ):
        pull(broker_b.address, "broker-b")


def test_a_process_that_reads_with_ever_new_expressions_does_not_grow(
    mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "_MOST_SQL92", 3)
    cluster = Cluster.at(mq.namesrv_addr)
    queue = MessageQueue("flights", "broker-a", 0)
    with mq.faults.delay(RequestCode.CHECK_CLIENT_CONFIG, 0, times=None) as asked:
        for number in (*range(10), 9, 9):
            cluster.engine.run(
                read_queue(
                    cluster, mq.broker_addr, "delays", queue, 0, 1, expression=f"a = {number}", expression_type="SQL92"
                )
            )
        assert asked.hits == 10
    assert len(cluster.accepted_sql92) <= 3


def test_a_right_expression_is_asked_about_when_planned_and_by_each_reader(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0, 1, 2)
    with mq.faults.delay(RequestCode.CHECK_CLIENT_CONFIG, 0, times=None) as asked:
        reader = readers(startingoffsets="earliest", sql92="TRUE")
        end, numbers = first_batch(reader)
        assert numbers == [0, 1, 2]
        ask(reader, end)
        ask(reader, end)
        asked_before = asked.hits
        ask(reader, end)
        assert asked.hits == asked_before <= 3  # not again with each batch
    with mq.faults.delay(RequestCode.CHECK_CLIENT_CONFIG, 0, times=None) as asked:
        first_batch(readers(startingoffsets="earliest", tags="UA"))
        assert not asked.hits


@pytest.mark.parametrize(
    ("remark", "shown"),
    [
        (
            'org.apache.rocketmq.filter.parser.ParseException: Encountered "<EOF>" at line 1, column 3.\nWas expecting one of:\n    "NOT"',
            'Encountered "<EOF>" at line 1, column 3; correct the expression',
        ),
        ("The broker does not support consumer to filter message by SQL92", SWITCH_ON),
        (no_property_filter("SQL92"), SWITCH_ON),
    ],
)
def test_source_and_consumer_say_the_same_of_what_a_broker_remarks(
    mq: EmbeddedRocketMQ, remark: str, shown: str
) -> None:
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": "flights", "sql92": "n >"})
    consumer = mq.push_consumer("far")
    consumer.subscribe("flights", rmq.sql92("n >"))
    consumer.on_message(lambda message: None)
    with mq.faults.fail(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark, times=None):
        with pytest.raises(ConfigurationError) as of_source:
            source.reader(source.schema()).partitions()
        with pytest.raises(RemoteError) as of_consumer:
            consumer.start()
    _, said = str(of_source.value).split(", which broker broker-a refuses: ")
    assert said.endswith(shown)
    assert said.count("enablePropertyFilter") == shown.count("enablePropertyFilter")
    assert f"the filter 'n >' of topic 'flights' is refused: {said}" in str(of_consumer.value)
