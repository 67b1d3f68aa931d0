# SPDX-License-Identifier: Apache-2.0
"""Every option of the source and of the sink: names are checked against this table, error messages quote it, and docs/spark/options.md is
generated from it (``make generate``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

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
    """One option. ``default`` and ``allowed`` are texts for people; ``choices`` are the words of a ``choice``."""

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


def _flag(name: str, default: bool, line: str, side: Literal["read", "both"] = "read") -> OptionRow:
    return OptionRow(name, side, "flag", str(default).lower(), "true or false", line, ("true", "false"))


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
          "every topic whose whole name matches, without system topics and ledgers, instead of topic; new topics are "
          "read from their first message"),
    _both("group", "name", "SPARK_ROCKETMQ_SOURCE, SPARK_ROCKETMQ_SINK", _NAME,
          "the consumer group of the progress and the retries, or the producer group of a write"),
    _read("deadLettersOf", "name", "none", _NAME,
          "read the dead letters of this group (%DLQ%group) instead of a topic; the column topic is the topic that each came from"),
    # which messages
    _read("tags", "text", "all", "tags separated by ||", "the broker filters by tag; messages filtered out count as read"),
    _read("sql92", "text", "all", "an SQL92 expression", "the broker filters by properties, instead of tags"),
    _read("startingOffsets", "offsets", "latest for a stream, earliest for a batch",
          f"earliest, latest, group or {_JSON} (-2 earliest, -1 latest)",
          "where a new query begins; ignored with a checkpoint. Queues that the JSON does not name begin at their smallest offset"),
    _choice("read", "groupOffsetsFallback", ("earliest", "latest", "error"), "earliest",
            "with startingOffsets=group: where a queue begins for which the group has no committed offset"),
    _read("startingTimestamp", "time", "none", _TIME,
          "begin with the first message stored at or after this time, instead of startingOffsets"),
    _read("startingOffsetsByTimestamp", "offsets", "none", _TIMES_JSON,
          "a time for each queue, instead of startingTimestamp; a queue that is not named begins at its smallest offset"),
    _choice("read", "startingOffsetsByTimestampStrategy", ("error", "latest"), "error",
            "for a queue with messages but none that young: fail, or begin at its end"),
    _read("endingOffsets", "offsets", "latest", f"latest or {_JSON} (-1 latest)", "where a batch ends (exclusive)"),
    _read("endingTimestamp", "time", "none", _TIME, "end a batch before the first message stored at or after this time"),
    _read("endingOffsetsByTimestamp", "offsets", "none", _TIMES_JSON,
          "the same with a time for each queue; a queue that is not named, or has no message that young, is read to its end"),
    _flag("includeRetry", False,
          "read the group's retry topic (%RETRY%group), too: rows that were sent back come again, with their first topic"),
    _read("waitForRetries", "duration", "none", _DURATION,
          "with includeRetry and the trigger availableNow: how long a run waits after each batch for rows that come again, before it ends; "
          "longer than the delay of a retry (10s, 30s, ...). Without it they are left for the next run"),
    _flag("failOnDataLoss", True, "fail when messages were deleted before they were read; false: continue, and report what is missing"),
    # how much at a time
    _count("read", "maxOffsetsPerTrigger", "none",
           "the most messages in a micro-batch, divided by backlog; each queue with a backlog gets at least one"),
    _count("read", "minOffsetsPerTrigger", "none", "skip a trigger until so many messages are available, or maxTriggerDelay is over"),
    _count("read", "maxBytesPerTrigger", "none",
           "the most stored bytes in a micro-batch, estimated from samples; may be combined with maxOffsetsPerTrigger"),
    _read("maxTriggerDelay", "duration", "15m", _DURATION, "with minOffsetsPerTrigger: the longest time without a trigger"),
    # tasks
    _count("read", "minPartitions", "none", "the fewest tasks of a batch; large queues are split"),
    _count("read", "maxPartitions", "none", "the most tasks of a batch; small queues share a task"),
    _count("read", "maxRecordsPerPartition", "none", "the most messages of a task, as far as maxPartitions allows"),
    _flag("ordered", False, "never split a queue, so that one task reads it in order"),
    # columns
    _read("columns", "list", "all", "a comma separated choice of the source's columns", "the columns to read; properties is the slowest"),
    _flag("includeProperties", True, "false leaves out the column properties"),
    # progress and reading
    _choice("read", "commitOffsets", ("eager", "lagged", "off"), "eager for a stream with a group, else off",
            "commit the progress to the brokers when a batch is done, one batch later, or never; the checkpoint decides "
            "where a stream continues"),
    _count("read", "pullBatchSize", "1024", "messages requested by one pull; Apache brokers return at most 32 by default", 1024),
    _count("read", "pullPipelining", "8", "pulls of one task in flight", 256),
    _choice("read", "brokerUnavailable", ("wait", "fail"), "wait",
            "while a broker does not answer, a running stream reads the others and waits, or fails after retryTimeoutMs"),
    _read("retiredBrokers", "list", "none", "names of brokers, comma separated",
          "brokers that are gone for good: their queues leave the stream, and the offset log has its last position in them"),
    _count("read", "lossReport", "none", "set by LossReport(spark).options: where tasks report losses"),
    _read("pullTimeoutMs", "duration", "10s", _DURATION, "how long a task waits for the answer to one pull"),
    _both("retryTimeoutMs", "duration", "60s", _DURATION, "how long a request is retried while a broker does not answer"),
    # writing
    _choice("write", "mode", ("send", "ack", "replay"), "send",
            "send rows as messages; acknowledge, retry and dead-letter rows of the source; or send dead letters to the "
            "topics they came from"),
    _choice("write", "delivery", ("atLeastOnce", "idempotent", "transactional"), "atLeastOnce",
            "idempotent: rows carry ids, by which a reader can drop repetitions; transactional: each batch appears once, "
            "as a whole (needs group)"),
    _write("ledgerTopic", "name", "SPROCKETMQ_DECISIONS_ and the group", _NAME,
           "the topic in which a transactional write stores its decisions"),
    _write("txnAppId", "text", "the query, or one of its own for each batch write", "printable text",
           "the name of a series of batch writes. transactional: a write whose txnVersion is decided is not written again; "
           "idempotent (required): its rows carry both"),
    _write("txnVersion", "text", "none", "a whole number from 0", "the number of a write within txnAppId; must grow"),
    _write("settleTimeoutMs", "duration", "3m", _DURATION, "how long a transactional commit waits for checks of old half messages"),
    _choice("write", "onDecidedBatch", ("fail", "pass"), "fail",
            "when a transactional batch that is decided already comes again with another number of rows: fail, or count the batch as done, "
            "with a warning"),
    _choice("write", "onError", ("fail", "drop", "dlq"), "fail",
            "for a row that cannot be a message (no body, too long, a value RocketMQ does not accept): the write fails, the row is "
            "left out and counted in the log, or it becomes a dead letter of group with the reason"),
    _count("write", "maxMessageBytes", "4194304", "the longest body of a row; brokers have a limit of their own, maxMessageSize",
           16_777_216),
    _count("write", "maxDelayLevel", "18", "the highest delayLevel of a row: as many levels as the brokers have, messageDelayLevel; above "
           "it a broker would take its highest", 1000),
    _choice("write", "compressType", ("none", "zlib", "lz4", "zstd"), "none",
            "compress long bodies; each is sent alone then, as RocketMQ has no compressed messages in batches. 4.9 "
            "consumers only understand zlib"),
    _count("write", "compressOverBytes", "4096", "bodies of this size and more are compressed"),
    _write("sendTimeoutMs", "duration", "10s", _DURATION, "how long one try of a send may take"),
    _write("acceptedSendStatus", "list", "SEND_OK", f"{', '.join(SEND_STATUSES)}, comma separated",
           "the statuses of a broker's answer that count as stored; with any other a row is sent again until "
           "retryTimeoutMs, then the task fails"),
    _count("write", "maxInFlight", "1024", "sends of one task in flight", 65_536),
    _count("write", "maxReconsumeTimes", "16", "tries of a row before it becomes a dead letter (mode ack)"),
    _count("write", "delayLevel", "chosen by the broker", "the delay level of retried rows without a level of their own (mode ack)", 1000),
    # access
    _both("accessKey", "secret", "none", "text", "the account that signs requests, with secretKey or secretKeyFile"),
    _both("secretKey", "secret", "none", "text", "the key of the signature; it is sent to the tasks, unlike the content of secretKeyFile"),
    _both("securityToken", "secret", "none", "text", "of a temporary account"),
    _both("secretKeyFile", "path", "none", "a file on every machine",
          "the secret key alone, or lines accessKey: and secretKey: as in Apache's conf/tools.yml; read where requests are signed, and "
          "again when it was renewed"),
    _flag("tls", False, "speak TLS", "both"),
    _flag("tlsAuthServer", True, "check the servers' certificates", "both"),
    _both("tlsTrustCertPath", "path", "what the machine trusts", "a PEM file on every machine", "the authorities for that check"),
    _both("tlsCertPath", "path", "none", "a PEM file on every machine", "this client's certificate, where servers want one"),
    _both("tlsKeyPath", "path", "in tlsCertPath", "a PEM file on every machine", "the key of that certificate"),
    _both("tlsKeyPassword", "secret", "none", "text", "the password of that key"),
)  # fmt: skip

OPTION_OF: Final = {row.name: row for row in OPTIONS}
# Options whose values are never shown in plans, logs, errors or repr (see ``access``).
SECRETS: Final = frozenset(row.name for row in OPTIONS if row.kind == "secret")
