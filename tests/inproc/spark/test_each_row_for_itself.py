# SPDX-License-Identifier: Apache-2.0
"""Each error of a row is that row's, in each sink and whatever ``onError`` says: columns x what can be wrong with them x sinks x onError.

The rows are given as Spark gives them: a string may have any bytes.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

import sprocketmq as rmq
from inproc.spark.strings import lists, maps, strings
from spark_task import Task, leave_group
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ

GOOD: Final = 20  # more than are made one by one because they are few
AT: Final = 7
LONGEST: Final = 2_000
TEXTS: Final[dict[str, bytes | None]] = {
    "latin-1": b"caf\xe9",
    "half of a pair": b"a\xed\xa0\x80",
    "cut": b"\xf0\x9f\x98",
    "first separator": b"a\x01b",
    "second separator": b"a\x02b",
    "blank": b"  ",
    "too long": b"x" * 40_000,
    "nearly too long": b"x" * 32_700,  # with what client and broker add
    "empty": b"",
    "null": None,
}
FOREIGN: Final = frozenset({"latin-1", "half of a pair", "cut"})
LONG: Final = frozenset({"too long", "nearly too long"})
SEPARATORS: Final = frozenset({"first separator", "second separator"})
NOTHING: Final = frozenset({"empty", "null"})
REFUSED: Final[dict[str, frozenset[str]]] = {
    "body": LONG | NOTHING,
    "topic": frozenset(TEXTS),
    "tags": frozenset(TEXTS) - NOTHING,
    "keys": frozenset(TEXTS) - NOTHING,
    "keys of a list": frozenset(TEXTS),
    "name": FOREIGN | SEPARATORS | LONG | {"empty"},
    "value": frozenset(TEXTS) - NOTHING,
    "shardingKey": frozenset(TEXTS) - NOTHING,
    "brokerName": frozenset(),
}
REFUSED_REPLAYS: Final = {
    "body": LONG | NOTHING,
    "topic": frozenset(TEXTS),
    "name": FOREIGN | SEPARATORS | LONG,
    "value": FOREIGN | {"second separator"} | LONG,
}
TOPICS: Final = ("no such!", "SCHEDULE_TOPIC_XXXX", "%RETRY%delays", "t" * 128)
NUMBERS: Final[tuple[dict[str, int], ...]] = (
    {"queueId": -1},
    {"delayLevel": -1},
    {"delayLevel": 19},
    {"deliverTimeMs": -1},
    {"deliverTimeMs": 1_700_000_000},
    {"delayLevel": 1, "deliverTimeMs": 1_700_000_000_000},
)
SINKS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "idempotent": {"delivery": "idempotent"},
    "transactional": {"delivery": "transactional"},
    "replay": {"mode": "replay"},
}


class Case(NamedTuple):
    """A row that differs from good ones in ``columns``."""

    name: str
    columns: dict[str, Any]
    is_refused: bool


def text_case(column: str, kind: str, is_refused: bool) -> Case:
    cell = TEXTS[kind]
    if column == "keys of a list":
        columns: dict[str, Any] = {"keys": lists(among([b"k"], [cell]))}
    elif column == "name":
        columns = {"properties": maps(among([(b"n", b"v")], [(cell or b"", b"v")]))}
    elif column == "value":
        columns = {"properties": maps(among([(b"n", b"v")], [(b"n", cell)]))}
    elif column == "brokerName":
        columns = {"brokerName": strings(among(b"broker-a", cell)), "queueId": pa.array([0] * (GOOD + 1), pa.int32())}
    else:
        columns = {column: strings(among(b"flights", cell))}
    return Case(f"{column}: {kind}", columns, is_refused)


def cases(sink: str) -> Iterator[Case]:
    refused = REFUSED_REPLAYS if sink == "replay" else REFUSED
    for column, kinds in refused.items():
        for kind in TEXTS:
            if (column, kind) != ("name", "null"):  # no map of Arrow has it
                yield text_case(column, kind, kind in kinds)
    for topic in TOPICS:
        yield Case(f"topic: {topic}", {"topic": strings(among(b"flights", topic.encode()))}, True)
    if sink == "replay":
        return
    for numbers in NUMBERS:
        columns = {
            name: pa.array(among(None, number), pa.int64() if name == "deliverTimeMs" else pa.int32())
            for name, number in numbers.items()
        }
        yield Case(f"numbers: {numbers}", columns, True)
    if sink == "transactional":
        yield Case("a delay", {"delayLevel": pa.array(among(None, 1), pa.int32())}, True)


def among(good: Any, bad: Any) -> list[Any]:
    return [*[good] * AT, bad, *[good] * (GOOD - AT)]


def batch_of(case: Case, sink: str) -> pa.RecordBatch:
    columns = {
        "body": pa.array([b"row %d" % number for number in range(GOOD + 1)], pa.binary()),
        "topic": strings([b"flights"] * (GOOD + 1)),
        **({"properties": maps([[]] * (GOOD + 1))} if sink == "replay" else {}),
        **case.columns,
    }
    return pa.record_batch(columns)


@pytest.fixture
def mq(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedRocketMQ]:
    Task.begin(monkeypatch)
    monkeypatch.setattr("sprocketmq.spark.write.writer.TaskContext", Task)
    with EmbeddedRocketMQ(clock="system", transactionTimeOut=600_000) as embedded:
        embedded.create_topic("flights", queues=2)
        try:
            yield embedded
        finally:
            leave_group()


Write = Callable[[pa.RecordBatch], None]


def write_to(mq: EmbeddedRocketMQ, **options: str) -> Write:
    """A stream, each batch by one task."""

    def write(batch: pa.RecordBatch) -> None:
        given = {"namesrvaddr": mq.namesrv_addr, "group": "loads", **options}
        writer = RocketMQDataSource(given).streamWriter(from_arrow_schema(batch.schema), overwrite=False)
        message = pickle.loads(pickle.dumps(writer)).write(iter([batch]))
        Task.batch += 1
        writer.commit([pickle.loads(pickle.dumps(message))], Task.batch)

    return write


class Topic:
    """What came to a topic since the last look."""

    def __init__(self, mq: EmbeddedRocketMQ, name: str) -> None:
        self._mq, self._name, self._seen = mq, name, 0

    def new(self) -> list[rmq.MessageExt[Any]]:
        found = sorted(self._mq.messages(self._name), key=lambda message: message.commit_log_offset)
        self._seen, new = len(found), found[self._seen :]
        return new


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("on_error", ["fail", "drop", "dlq"])
def test_a_row_is_sent_or_it_alone_is_refused(mq: EmbeddedRocketMQ, sink: str, on_error: str) -> None:
    write, flights, letters = (
        write_to(mq, onError=on_error, maxMessageBytes=str(LONGEST), **SINKS[sink]),
        Topic(mq, "flights"),
        Topic(mq, "%DLQ%loads"),
    )
    wrong: list[str] = []
    for case in cases(sink):
        batch = batch_of(case, sink)
        try:
            write(batch)
            problem: Exception | None = None
        except Exception as error:  # noqa: BLE001 - which one it is decides
            problem = error
        sent, dead = Counter(message.body for message in flights.new()), letters.new()
        bodies = Counter(batch.column("body").cast(pa.binary()).to_pylist())
        if case.is_refused:
            bodies -= Counter([batch.column("body").cast(pa.binary())[AT].as_py()])
        if on_error == "fail" and case.is_refused:
            is_right = isinstance(problem, ConfigurationError) and "\n" not in str(problem) and not sent
        else:
            is_right = problem is None and sent == bodies and len(dead) == (on_error == "dlq" and case.is_refused)
            is_right &= all(letter.properties["RETRY_REASON"] for letter in dead)
        if not is_right:
            wrong.append(f"{case.name}: {problem!r}, {sent.total()} rows are sent, {len(dead)} are dead letters")
    assert wrong == []


# -- rows that go back ---------------------------------------------------------------------------------------------------------------

BACK: Final = ("topic", "messageId", "name", "value", "reason", "storeHost")


@pytest.mark.parametrize("has_reason", [True, False])
@pytest.mark.parametrize("is_gone", [True, False], ids=["record gone", "record there"])
def test_a_bad_row_goes_back_whatever_its_texts_are(has_reason: bool, is_gone: bool) -> None:
    """Mode ack; what ``foreach_batch`` sends back takes the same way. ``is_gone``: the broker has deleted the record, and the row alone
    has the message."""
    wrong: list[str] = []
    for column in BACK:
        for kind in FOREIGN | NOTHING:
            if (column, kind) == ("name", "null") or (column == "reason" and not has_reason):
                continue
            if column == "topic" and is_gone:
                continue  # a copy would not come from any topic
            with EmbeddedRocketMQ() as mq:
                problem = sent_back(mq, column, TEXTS[kind], has_reason, is_gone)
            if problem is not None:
                wrong.append(f"{column}: {kind}: {problem}")
    assert wrong == []


def sent_back(mq: EmbeddedRocketMQ, column: str, cell: bytes | None, has_reason: bool, is_gone: bool) -> object:
    """Send one of six messages back, with ``cell`` in ``column``; what is wrong, or None."""
    mq.create_topic("flights", queues=1)
    with mq.producer() as producer:
        producer.send_batch([rmq.Message("flights", b"%d" % number, tags="UA") for number in range(6)])
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": "flights"})
    schema = source.schema()
    reader = source.reader(schema)
    table = pa.Table.from_batches(
        [batch for partition in reader.partitions() for batch in reader.read(partition)],
        to_arrow_schema(schema, timezone="UTC"),
    )
    columns = {name: table.column(name) for name in table.column_names}
    columns["action"] = strings([None, b"retry", None, None, None, None])
    if has_reason:
        columns["reason"] = strings([None, b"late", None, None, None, None])
    columns.update(changed(column, cell))
    if is_gone:
        mq.restart_broker()
    rows = pa.table(columns)
    given = {"namesrvaddr": mq.namesrv_addr, "mode": "ack", "group": "delays", "retryTimeoutMs": "5s"}
    writer = RocketMQDataSource(given).streamWriter(from_arrow_schema(rows.schema), overwrite=False)
    try:
        writer.commit([pickle.loads(pickle.dumps(writer.write(iter(rows.to_batches()))))], 0)
    except Exception as error:  # noqa: BLE001 - all that are wrong are shown
        return repr(error)
    mq.advance(10_000)
    copies = [(copy.body, copy.reconsume_times) for copy in mq.messages("%RETRY%delays")]
    return None if copies == [(b"1", 1)] else copies


def changed(column: str, cell: bytes | None) -> dict[str, Any]:
    if column in ("name", "value"):
        pair = (cell or b"", b"v") if column == "name" else (b"n", cell)
        return {"properties": maps([[], [pair], [], [], [], []])}
    return {column: strings([b"x", cell, b"x", b"x", b"x", b"x"])}


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_a_row_that_does_not_say_where_its_message_is_stops_the_batch_in_one_sentence(
    mq: EmbeddedRocketMQ, kind: str
) -> None:
    columns = {
        "brokerName": strings([TEXTS[kind]]),
        "commitLogOffset": pa.array([0], pa.int64()),
        "action": strings([b"retry"]),
    }
    write = write_to(mq, mode="ack", group="delays", retryTimeoutMs="50ms")
    with pytest.raises(RocketMQError, match=r"^broker .* is not registered"):
        write(pa.record_batch(columns))
