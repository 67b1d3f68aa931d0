"""Every option of the source and of the sink, in one table: names are checked against it, a wrong value is answered out of it, and
docs/spark/options.md is written from it (``scripts/spark-options``).

Laws (tests/unit/spark/test_option_table.py): a name is here once, whatever its case; what an option allows is said in the same words in the
page and in the error; a row's default is what leaving the option out means; every row of a closed kind refuses each wrong value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["OPTIONS", "OPTION_OF", "SECRETS", "SEND_STATUSES", "OptionRow"]

Kind = Literal[
    "text", "name", "choice", "flag", "count", "duration", "time", "offsets", "addresses", "list", "secret", "path"
]  # fmt: skip

_COUNT: Final = "a whole number from 1"
_DURATION: Final = "a time such as 500ms, 30s, 15m, 2h or a number of milliseconds"
_TIME: Final = "milliseconds since 1970, or a time with its zone such as 2026-01-31T08:00:00+00:00"
_NAME: Final = "1 to 127 of letters, digits and %|_-"
# Java: SendStatus.
SEND_STATUSES: Final = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
_JSON: Final = 'JSON like {"topic":{"broker-a":{"0":42}}}'
_TIMES_JSON: Final = 'JSON like {"topic":{"broker-a":{"0":1700000000000}}} (milliseconds since 1970)'


@dataclass(frozen=True)
class OptionRow:
    """One option. ``default`` and ``allowed`` are words for people; ``choices`` are the words of a ``choice``."""

    name: str
    side: Literal["read", "write", "both"]
    kind: Kind
    default: str
    allowed: str
    line: str
    choices: tuple[str, ...] = ()
    at_most: int = 2**63 - 1


def _read(name: str, kind: Kind, default: str, allowed: str, line: str) -> OptionRow:
    return OptionRow(name, "read", kind, default, allowed, line)


def _write(name: str, kind: Kind, default: str, allowed: str, line: str) -> OptionRow:
    return OptionRow(name, "write", kind, default, allowed, line)


def _both(name: str, kind: Kind, default: str, allowed: str, line: str) -> OptionRow:
    return OptionRow(name, "both", kind, default, allowed, line)


def _choice(
    side: Literal["read", "write", "both"], name: str, choices: tuple[str, ...], default: str, line: str
) -> OptionRow:
    return OptionRow(name, side, "choice", default, " or ".join(choices), line, choices)


def _flag(name: str, default: bool, line: str) -> OptionRow:
    return OptionRow(name, "read", "flag", str(default).lower(), "true or false", line, ("true", "false"))


def _access_flag(name: str, default: bool, line: str) -> OptionRow:
    return OptionRow(name, "both", "flag", str(default).lower(), "true or false", line, ("true", "false"))


def _count(side: Literal["read", "write", "both"], name: str, default: str, line: str, at_most: int = 0) -> OptionRow:
    allowed = f"{_COUNT} to {at_most}" if at_most else _COUNT
    return OptionRow(name, side, "count", default, allowed, line, at_most=at_most or 2**63 - 1)


OPTIONS: Final = (
    # where
    _both("namesrvAddr", "addresses", "NAMESRV_ADDR of the driver", "host:port, several separated by ;", "the name servers"),
    _both("topic", "name", "none", "letters, digits and %|_- in a topic name",
          "the topic to read (or a comma separated list), or the topic for all rows that are written"),
    _read("topics", "list", "none", "letters, digits and %|_- in a topic name", "several topics, comma separated, instead of topic"),
    _read("topicsPattern", "text", "none", "a regular expression",
          "every topic whose whole name matches, but system topics and ledgers, instead of topic; new ones join with their first message"),
    _both("group", "name", "SPARK_ROCKETMQ_SOURCE, SPARK_ROCKETMQ_SINK", _NAME,
          "the consumer group that shows progress and owns the retries, or the producer group of a write"),
    _read("deadLettersOf", "name", "none", _NAME,
          "read the dead letters of this group (%DLQ%group) instead of a topic; the column topic says where each came from"),
    # which messages
    _read("tags", "text", "all", "tags separated by ||", "the broker filters by tag; filtered messages count as read"),
    _read("sql92", "text", "all", "an SQL92 expression", "the broker filters by properties, instead of tags"),
    _read("startingOffsets", "offsets", "latest for a stream, earliest for a batch",
          f"earliest, latest, group or {_JSON} (-2 earliest, -1 latest)",
          "where a new query begins; a checkpoint goes before it. Queues that the JSON leaves out begin at their smallest offset"),
    _choice("read", "groupOffsetsFallback", ("earliest", "latest", "error"), "earliest",
            "where a queue begins for which the group of startingOffsets=group has committed nothing"),
    _read("startingTimestamp", "time", "none", _TIME,
          "begin with the first message stored at or after this time, instead of startingOffsets"),
    _read("startingOffsetsByTimestamp", "offsets", "none", _TIMES_JSON,
          "a time of its own for each queue, instead of startingTimestamp; a queue that is left out begins at its smallest offset"),
    _choice("read", "startingOffsetsByTimestampStrategy", ("error", "latest"), "error",
            "what to do with a queue that holds no message so young: refuse, or begin at its end"),
    _read("endingOffsets", "offsets", "latest", f"latest or {_JSON} (-1 latest)", "where a batch ends (exclusive)"),
    _read("endingTimestamp", "time", "none", _TIME, "end a batch before the first message stored at or after this time"),
    _read("endingOffsetsByTimestamp", "offsets", "none", _TIMES_JSON,
          "the same for each queue; one that is left out, or has no message so young, is read to its end"),
    _flag("includeRetry", False, "read %RETRY% of the group, too: rows that were sent back come again under their own topic"),
    _flag("failOnDataLoss", True, "fail when messages were deleted before they were read; false: go on, count and report what is missing"),
    # how much at a time
    _count("read", "maxOffsetsPerTrigger", "none",
           "messages in a micro-batch at most, shared out by backlog, each queue with a backlog at least one"),
    _count("read", "minOffsetsPerTrigger", "none", "skip a trigger until so many messages wait, or maxTriggerDelay is over"),
    _count("read", "maxBytesPerTrigger", "none",
           "stored bytes in a micro-batch at most, by the sizes of messages looked at; may be given beside maxOffsetsPerTrigger"),
    _read("maxTriggerDelay", "duration", "15m", _DURATION, "the longest between two triggers that minOffsetsPerTrigger skips"),
    # tasks
    _count("read", "minPartitions", "none", "tasks of a batch at least; hot queues are split"),
    _count("read", "maxPartitions", "none", "tasks of a batch at most; small queues share one"),
    _count("read", "maxRecordsPerPartition", "none", "messages of a task at most, as far as maxPartitions allows"),
    _flag("ordered", False, "never split a queue, so that each is read in order by one task"),
    # columns
    _read("columns", "list", "all", "a comma separated choice of the source's columns", "columns to read; properties is the dearest"),
    _flag("includeProperties", True, "false leaves the column properties out"),
    # progress and reading
    _choice("read", "commitOffsets", ("eager", "lagged", "off"), "eager for a stream with a group, else off",
            "tell the brokers about progress: when a batch is done, one batch later, or never; the checkpoint stays the truth"),
    _count("read", "pullBatchSize", "1024", "messages asked for by one pull; Apache brokers give 32 unless they are told otherwise", 1024),
    _count("read", "pullPipelining", "8", "pulls of one task in flight", 256),
    _choice("read", "brokerUnavailable", ("wait", "fail"), "wait",
            "what a running stream does while a broker does not answer: read the others and wait, or fail after retryTimeoutMs"),
    _read("retiredBrokers", "list", "none", "names of brokers, comma separated",
          "brokers that are gone for good: a stream with a checkpoint leaves their queues, and journals where it was in them"),
    _count("read", "lossReport", "none", "given by LossReport(spark).options: where tasks count what is lost"),
    _read("pullTimeoutMs", "duration", "10s", _DURATION, "how long a task waits for the answer to one pull"),
    _both("retryTimeoutMs", "duration", "60s", _DURATION, "how long anything is tried again while a broker does not answer"),
    # writing
    _choice("write", "mode", ("send", "ack", "replay"), "send",
            "send rows as messages; acknowledge, retry and dead-letter rows of the source; or send dead letters to where they came from"),
    _choice("write", "delivery", ("atLeastOnce", "idempotent", "transactional"), "atLeastOnce",
            "idempotent: rows carry numbers by which a repeat is told; transactional: each batch appears once, as a whole (needs group)"),
    _write("ledgerTopic", "name", "SPROCKETMQ_DECISIONS_ and the group", _NAME, "where a transactional write keeps its decisions"),
    _write("txnAppId", "text", "the query, or one of its own for each batch write", "printable text",
           "names a series of batch writes. transactional: one of a txnVersion that is decided is not written again; "
           "idempotent (needs it): its rows carry both"),
    _write("txnVersion", "text", "none", "a whole number from 0", "the number of a write within txnAppId; must grow"),
    _write("settleTimeoutMs", "duration", "3m", _DURATION, "how long a transactional commit waits for checks of old half messages"),
    _choice("write", "onDecidedBatch", ("fail", "pass"), "fail",
            "what becomes of a transactional batch that is decided already and comes again with more or less rows: the write fails, or the "
            "batch counts as done, with a warning, as it was decided"),
    _choice("write", "onError", ("fail", "drop", "dlq"), "fail",
            "what becomes of a row that cannot be a message (no body, too long, a value RocketMQ does not take): the write fails, it is "
            "left out and counted in the log, or it becomes a dead letter of group with the reason"),
    _count("write", "maxMessageBytes", "4194304", "the longest body of a row; brokers have a limit of their own, maxMessageSize",
           16_777_216),
    _choice("write", "compressType", ("none", "zlib", "lz4", "zstd"), "none",
            "compress long bodies; each then goes alone, as RocketMQ compresses none in a batch. 4.9 consumers only understand zlib"),
    _count("write", "compressOverBytes", "4096", "bodies of this size and more are compressed"),
    _write("sendTimeoutMs", "duration", "10s", _DURATION, "how long one try of a send may take"),
    _write("acceptedSendStatus", "list", "SEND_OK", f"{', '.join(SEND_STATUSES)}, comma separated",
           "answers of a broker that count as stored; with any other a row is sent again until retryTimeoutMs, and then the task fails"),
    _count("write", "maxInFlight", "1024", "sends of one task in flight", 65_536),
    _count("write", "maxReconsumeTimes", "16", "tries of a row before it becomes a dead letter (mode ack)"),
    _count("write", "delayLevel", "chosen by the broker", "the delay level of retried rows without a level of their own (mode ack)", 1000),
    # access
    _both("accessKey", "secret", "none", "text", "whose signature requests carry, with secretKey or secretKeyFile"),
    _both("secretKey", "secret", "none", "text", "what requests are signed with; it travels with the tasks, which secretKeyFile does not"),
    _both("securityToken", "secret", "none", "text", "of a temporary account"),
    _both("secretKeyFile", "path", "none", "a file on every machine",
          "the secret key alone, or lines accessKey: and secretKey: as in Apache's conf/tools.yml; read where requests are signed, and "
          "again when it was renewed"),
    _access_flag("tls", False, "speak TLS"),
    _access_flag("tlsAuthServer", True, "check the servers' certificates"),
    _both("tlsTrustCertPath", "path", "what the machine trusts", "a PEM file on every machine", "the authorities to check them against"),
    _both("tlsCertPath", "path", "none", "a PEM file on every machine", "this client's certificate, where servers want one"),
    _both("tlsKeyPath", "path", "in tlsCertPath", "a PEM file on every machine", "the key of that certificate"),
    _both("tlsKeyPassword", "secret", "none", "text", "the password of that key"),
)  # fmt: skip

OPTION_OF: Final = {row.name: row for row in OPTIONS}
# Never shown: not in plans, logs, errors or repr (see ``access``).
SECRETS: Final = frozenset(row.name for row in OPTIONS if row.kind == "secret")
