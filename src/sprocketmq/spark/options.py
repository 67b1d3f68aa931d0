"""What a user may write in ``.option(...)``: parsed and checked once, on the driver, before any broker is asked.

Spark hands every option over as text and lower-cases the keys, so names are matched without regard to case and shown in the spelling of
the documentation. A name that is unknown, or belongs to the other side, is an error, because a misspelt ``startingOffsets`` (or a
``maxInFlight`` of a read) that is silently ignored costs somebody a night. One table (CREATE TABLE ... USING rocketmq) carries one set of
options for all that is done with it: there each side leaves the other's alone.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from sprocketmq.core.retry_schedule import dlq_topic, retry_topic
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.access import PLAIN, Access
from sprocketmq.spark.given_options import CATALOG_PREFIX, NAME_PATTERN, GivenOptions
from sprocketmq.spark.offsets import queues_from_json
from sprocketmq.wire.message import MessageQueue

__all__ = ["CATALOG_PREFIX", "COLUMNS", "Bound", "ReadOptions", "SinkOptions", "read_options", "sink_options"]

# name -> Spark type, in the order of the table that the source offers
COLUMNS: Final[dict[str, str]] = {
    "topic": "string",
    "brokerName": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "commitLogOffset": "bigint",
    "messageId": "string",
    "keys": "string",
    "tags": "string",
    "properties": "map<string,string>",
    "body": "binary",
    "bornTimestamp": "timestamp",
    "storeTimestamp": "timestamp",
    "bornHost": "string",
    "storeHost": "string",
    "reconsumeTimes": "int",
    "sysFlag": "int",
}

# A pull needs a consumer group that the broker knows or may create; this one is used when the user names none.
DEFAULT_READ_GROUP: Final = "SPARK_ROCKETMQ_SOURCE"
LEDGER_PREFIX: Final = "SPROCKETMQ_DECISIONS_"
DEFAULT_SEND_GROUP: Final = "SPARK_ROCKETMQ_SINK"
TOPIC_OPTIONS: Final = ("topic", "topics", "topicsPattern", "deadLettersOf")
# Harmless in a batch, and of no use: Spark's Kafka source warns of them, too.
STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay", "commitOffsets", "brokerUnavailable",
)  # fmt: skip

log = logging.getLogger("sprocketmq.spark")


@dataclass(frozen=True)
class Bound:
    """Where a read starts or ends, as the user said it: nothing is resolved yet.

    ``kind``: ``earliest``, ``latest``, ``group`` (what the consumer group committed), ``timestamp`` (``timestamp_ms``), ``offsets``
    (``offsets`` by queue, where -2 means earliest and -1 latest) or ``timestamps`` (``offsets`` are times by queue, in ms). A queue that is
    not named counts as new: earliest, or latest at the end. ``option`` is the name to blame.
    """

    kind: Literal["earliest", "latest", "group", "timestamp", "offsets", "timestamps"]
    timestamp_ms: int = 0
    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    option: str = field(default="", compare=False)

    def times_ms(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The time to look for in each of ``queues`` that is looked for by time."""
        if self.kind == "timestamp":
            return dict.fromkeys(queues, self.timestamp_ms)
        return (
            {queue: self.offsets[queue] for queue in queues if queue in self.offsets}
            if self.kind == "timestamps"
            else {}
        )


@dataclass(frozen=True)
class ReadOptions:
    """Options of the source. See docs for what each does; all limits are counts of messages, all times milliseconds."""

    namesrv_addr: str
    topics: tuple[str, ...]
    topics_pattern: str | None
    group: str
    group_given: bool
    expression: str
    expression_type: Literal["TAG", "SQL92"]
    starting: Bound
    ending: Bound
    group_offsets_fallback: Literal["earliest", "latest", "error"]
    timestamp_strategy: Literal["error", "latest"]
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_partitions: int | None
    max_records_per_partition: int | None
    ordered: bool
    columns: tuple[str, ...]
    include_retry: bool
    commit_offsets: Literal["eager", "lagged", "off"]
    broker_unavailable: Literal["wait", "fail"]
    loss_report: str | None
    pull_batch_size: int
    pull_pipelining: int
    pull_timeout_ms: int
    retry_timeout_ms: int
    access: Access = PLAIN

    @property
    def tags(self) -> frozenset[str]:
        """Tags to accept, empty for all. Only text equality is exact: the broker compares hash codes."""
        if self.expression_type != "TAG" or self.expression == "*":
            return frozenset()
        return frozenset(tag.strip() for tag in self.expression.split("||") if tag.strip())

    def __repr__(self) -> str:
        return _masked(self)


@dataclass(frozen=True)
class SinkOptions:
    """Options of the sink."""

    namesrv_addr: str
    topic: str | None
    group: str
    mode: Literal["send", "ack", "replay"]
    delivery: Literal["atLeastOnce", "idempotent", "transactional"]
    send_timeout_ms: int
    max_in_flight: int
    max_reconsume_times: int
    delay_level: int
    retry_timeout_ms: int
    access: Access = PLAIN
    ledger_topic: str = ""
    txn_app_id: str | None = None
    txn_version: int | None = None
    settle_timeout_ms: int = 180_000

    def __repr__(self) -> str:
        return _masked(self)


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Options of a batch or streaming read.

    Raises:
        ConfigurationError: an unknown name, a bad value or a combination that makes no sense; one sentence.
    """
    given = GivenOptions(options)
    given.only_of("read")
    if not streaming and (idle := [name for name in STREAM_ONLY if given.has(name)]):
        log.warning("%s is given for a batch, where it does nothing; it is for spark.readStream", idle[0])
    topics, pattern = _topics(given)
    expression_type: Literal["TAG", "SQL92"] = "SQL92" if given.has("sql92") else "TAG"
    given.not_both("tags", "sql92")
    group = given.name("group", "")
    starting, ending = _bounds(given, streaming)
    commit_default = "eager" if group and streaming else "off"
    read = ReadOptions(
        namesrv_addr=given.namesrv_addr(),
        topics=topics,
        topics_pattern=pattern,
        group=group or given.name("deadLettersOf", DEFAULT_READ_GROUP),  # whose permissions a read needs
        group_given=bool(group),
        expression=(given.text("sql92") or "").strip() if given.has("sql92") else given.tags(),
        expression_type=expression_type,
        starting=starting,
        ending=ending,
        group_offsets_fallback=given.choice("groupOffsetsFallback"),  # type: ignore[arg-type]
        timestamp_strategy=given.choice("startingOffsetsByTimestampStrategy"),  # type: ignore[arg-type]
        fail_on_data_loss=given.flag("failOnDataLoss"),
        max_offsets_per_trigger=given.count("maxOffsetsPerTrigger"),
        max_bytes_per_trigger=given.count("maxBytesPerTrigger"),
        min_offsets_per_trigger=given.count("minOffsetsPerTrigger"),
        max_trigger_delay_ms=given.duration_ms("maxTriggerDelay"),
        min_partitions=given.count("minPartitions"),
        max_partitions=given.count("maxPartitions"),
        max_records_per_partition=given.count("maxRecordsPerPartition"),
        ordered=given.flag("ordered"),
        columns=_columns(given),
        include_retry=given.flag("includeRetry"),
        commit_offsets=given.choice("commitOffsets", commit_default),  # type: ignore[arg-type]
        broker_unavailable=given.choice("brokerUnavailable"),  # type: ignore[arg-type]
        loss_report=str(given.count("lossReport")) if given.has("lossReport") else None,
        pull_batch_size=given.count("pullBatchSize") or 1024,
        pull_pipelining=given.count("pullPipelining") or 8,
        pull_timeout_ms=given.duration_ms("pullTimeoutMs"),
        retry_timeout_ms=given.duration_ms("retryTimeoutMs"),
        access=given.access(),
    )
    _check_combinations(given, read)
    return read


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Options of a batch or streaming write.

    Raises:
        ConfigurationError: an unknown name or a bad value; one sentence.
    """
    given = GivenOptions(options)
    given.only_of("write")
    mode = given.choice("mode")
    if mode == "ack" and not given.has("group"):
        raise ConfigurationError("mode is 'ack' without group; name the consumer group whose messages are sent back")
    if mode != "ack":
        given.idle(("maxReconsumeTimes",), f"with mode {mode}, which sends no row back", "set mode to ack")
        given.idle(("delayLevel",), f"with mode {mode}, where each row has its own delay", "use a column delayLevel")
    _one_topic(given)
    topic = given.name("topic", "") or _path_as_topic(given)
    ledger_topic, txn_app_id, txn_version = _transaction(given, mode)
    return SinkOptions(
        namesrv_addr=given.namesrv_addr(),
        topic=topic or None,
        group=given.name("group", DEFAULT_SEND_GROUP),
        mode=mode,  # type: ignore[arg-type]
        delivery=given.choice("delivery"),  # type: ignore[arg-type]
        send_timeout_ms=given.duration_ms("sendTimeoutMs"),
        max_in_flight=given.count("maxInFlight") or 1024,
        max_reconsume_times=given.count("maxReconsumeTimes") or 16,
        delay_level=given.count("delayLevel") or 0,
        retry_timeout_ms=given.duration_ms("retryTimeoutMs"),
        access=given.access(),
        ledger_topic=ledger_topic,
        txn_app_id=txn_app_id,
        txn_version=txn_version,
        settle_timeout_ms=given.duration_ms("settleTimeoutMs"),
    )


def _transaction(given: GivenOptions, mode: str) -> tuple[str, str | None, int | None]:
    """Ledger topic, txnAppId and txnVersion; the topic is empty unless the delivery is transactional."""
    app_id, version = given.text("txnAppId"), given.text("txnVersion")
    delivery = given.choice("delivery")
    if (mode == "ack" and delivery != "atLeastOnce") or (mode != "send" and delivery == "transactional"):
        raise ConfigurationError(
            f"delivery is {delivery!r} with mode {mode!r}; only rows that are sent can be {delivery}"
        )
    if delivery != "transactional":
        names = ("ledgerTopic", "txnAppId", "txnVersion", "settleTimeoutMs")
        given.idle(names, "without delivery transactional", "add it")
        return "", None, None
    if not given.has("group"):
        raise ConfigurationError(
            "delivery is 'transactional' without group; name a producer group of its own, which answers for the half messages"
        )
    if (app_id is None) != (version is None) or app_id == "":
        raise ConfigurationError("txnAppId and txnVersion belong together; give both or none")
    if version is not None and not (version.strip().isascii() and version.strip().isdigit()):
        given.refuse("txnVersion")
    group = given.name("group", "")
    return given.name("ledgerTopic", LEDGER_PREFIX + group), app_id, None if version is None else int(version)


def _topics(given: GivenOptions) -> tuple[tuple[str, ...], str | None]:
    named = [name for name in TOPIC_OPTIONS if given.has(name)]
    if len(named) > 1:
        raise ConfigurationError(f"{' and '.join(named)} are both given; keep one of {', '.join(TOPIC_OPTIONS)}")
    if given.has("deadLettersOf"):
        group = given.name("deadLettersOf", "")
        if not group:
            given.refuse("deadLettersOf")
        return (dlq_topic(group),), None
    if given.has("topicsPattern"):
        pattern = given.text("topicsPattern") or ""
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(
                f"topicsPattern is {pattern!r}, which is no regular expression ({error}); correct it"
            ) from error
        return (), pattern
    _one_topic(given)
    text = given.text("topic") or given.text("topics") or _path_as_topic(given)
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise ConfigurationError(
            'no topic is given; add .option("topic", "...") or topics (comma separated) or topicsPattern'
        )
    for topic in topics:
        if not NAME_PATTERN.fullmatch(topic):
            given.refuse(named[0] if named else "path", "letters, digits and %|_- in a topic name")
    return topics, None


def _one_topic(given: GivenOptions) -> None:
    """``load("a").option("topic", "b")``: one of them would be forgotten in silence."""
    path = _path_as_topic(given)
    named = next((name for name in TOPIC_OPTIONS if given.has(name)), None)
    if path and named is not None and given.text(named) != path:
        raise ConfigurationError(f"the path is {path!r} and {named} is {given.text(named)!r}; keep one of them")


def _path_as_topic(given: GivenOptions) -> str:
    """``load("flights")`` names the topic; the warehouse location that Spark gives to a table does not."""
    path = given.text("path") or ""
    return "" if "/" in path or ":" in path or "\\" in path else path


def _columns(given: GivenOptions) -> tuple[str, ...]:
    if not given.has("columns"):
        keep_properties = given.flag("includeProperties")
        return tuple(name for name in COLUMNS if name != "properties" or keep_properties)
    given.not_both("columns", "includeProperties")
    spelling = {name.lower(): name for name in COLUMNS}
    names = [part.strip() for part in (given.text("columns") or "").split(",") if part.strip()]
    unknown = [name for name in names if name.lower() not in spelling]
    if unknown or not names:
        given.refuse("columns", f"a comma separated choice of {', '.join(COLUMNS)}")
    return tuple(dict.fromkeys(spelling[name.lower()] for name in names))


def _bounds(given: GivenOptions, streaming: bool) -> tuple[Bound, Bound]:
    starts = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
    ends = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
    if streaming:
        for name in ends:
            if given.has(name):
                raise ConfigurationError(f"{name} is given for a stream, which has no end; use it with spark.read only")
    start_option, end_option = given.only_one(starts), given.only_one(ends)
    starting, ending = Bound("latest" if streaming else "earliest"), Bound("latest")
    if start_option:
        starting = _bound(given, start_option, ("earliest", "latest", "group"))
        if starting.kind == "latest" and not streaming:
            given.refuse("startingOffsets", "earliest, group or a JSON object in a batch read (latest reads nothing)")
        if starting.kind == "group" and not given.has("group"):
            raise ConfigurationError("startingOffsets is 'group' without group; name the consumer group to start from")
    elif given.has("startingOffsetsByTimestampStrategy"):
        raise ConfigurationError(
            "startingOffsetsByTimestampStrategy is given without a time; add startingTimestamp or startingOffsetsByTimestamp"
        )
    if given.has("groupOffsetsFallback") and starting.kind != "group":
        raise ConfigurationError(
            "groupOffsetsFallback is given without startingOffsets group; set startingOffsets to group"
        )
    if end_option:
        ending = _bound(given, end_option, ("latest",))
        if ending.kind == "offsets" and -2 in ending.offsets.values():
            given.refuse("endingOffsets", "offsets from 0 or -1 (latest); -2 (earliest) would read nothing")
    _check_order(starting, ending)
    return starting, ending


def _check_order(starting: Bound, ending: Bound) -> None:
    """What can be told without a broker: a read that ends before it begins, and that would name other queues at its end."""
    if starting.kind == ending.kind == "timestamp" and ending.timestamp_ms < starting.timestamp_ms:
        raise ConfigurationError(
            f"endingTimestamp is {ending.timestamp_ms}, which is before startingTimestamp {starting.timestamp_ms}; exchange them"
        )
    if starting.kind == ending.kind and starting.kind in ("offsets", "timestamps"):
        for queue, upto in sorted(ending.offsets.items()):
            first = starting.offsets.get(queue, -2)
            if first >= 0 and 0 <= upto < first:
                raise ConfigurationError(
                    f"{ending.option} of {queue} is {upto}, which is before {starting.option} {first}; give an end at or after the start"
                )


def _bound(given: GivenOptions, name: str, words: tuple[str, ...]) -> Bound:
    if name.endswith("ByTimestamp"):
        bound = _offsets_bound(given, name, ())
        if min(bound.offsets.values()) < 0:
            given.refuse(name)
        return Bound("timestamps", offsets=bound.offsets, option=name)
    if name.endswith("Timestamp"):
        return Bound("timestamp", given.timestamp_ms(name), option=name)
    return _offsets_bound(given, name, words)


def _offsets_bound(given: GivenOptions, name: str, words: tuple[str, ...]) -> Bound:
    text = (given.text(name) or "").strip()
    if text.lower() in words:
        return Bound(text.lower())  # type: ignore[arg-type]
    try:
        document: Any = json.loads(text)
        offsets = queues_from_json(document["q"] if "v" in document else document)
    except (ValueError, AttributeError, TypeError):
        given.refuse(name)
    if not offsets or min(offsets.values()) < -2:
        given.refuse(name)
    _check_topics(given, name, {queue.topic for queue in offsets})
    return Bound("offsets", offsets=offsets, option=name)


def _check_topics(given: GivenOptions, name: str, named: set[str]) -> None:
    """Offsets of a topic that is not read are a slip, known before a broker is asked."""
    topics, pattern = _topics(given)
    strange = sorted(
        topic for topic in named if topic not in topics and (pattern is None or not re.fullmatch(pattern, topic))
    )
    retry = retry_topic(given.name("group", "")) if given.has("includeRetry") else ""
    strange = [topic for topic in strange if topic != retry]
    if strange:
        near = difflib.get_close_matches(strange[0], topics, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigurationError(
            f"{name} names topic {strange[0]!r}, which is not read; allowed is {', '.join(topics) or f'what matches {pattern!r}'}{hint}"
        )


def _check_combinations(given: GivenOptions, read: ReadOptions) -> None:
    if read.include_retry and not read.group_given:
        raise ConfigurationError("includeRetry is true without group; name the consumer group whose retries to read")
    if given.has("commitOffsets") and read.commit_offsets != "off" and not read.group_given:
        raise ConfigurationError("commitOffsets is set without group; name the consumer group that shows the progress")
    least, most = read.min_offsets_per_trigger, read.max_offsets_per_trigger
    if least and most and least > most:
        raise ConfigurationError(
            f"minOffsetsPerTrigger is {least}, which exceeds maxOffsetsPerTrigger {most}; lower one or raise the other"
        )
    if read.min_partitions and read.max_partitions and read.min_partitions > read.max_partitions:
        raise ConfigurationError(
            f"minPartitions is {read.min_partitions}, which exceeds maxPartitions {read.max_partitions}; lower one or raise the other"
        )
    if not read.expression:
        raise ConfigurationError("sql92 is empty; leave it out to read everything")
    if read.include_retry and given.has("deadLettersOf"):
        raise ConfigurationError(
            "includeRetry is true with deadLettersOf; dead letters are read alone, leave one of them out"
        )


def _masked(options: object) -> str:
    shown = (
        f"{entry.name}={getattr(options, entry.name)!r}"  # Access hides its secrets itself
        for entry in fields(options)  # type: ignore[arg-type]
    )
    return f"{type(options).__name__}({', '.join(shown)})"
