# SPDX-License-Identifier: Apache-2.0
"""The options of a read, parsed and checked once, on the driver, before any request. ``sink_options`` does the same for a write.

Spark passes options as text with lower-case keys, so names are matched regardless of case. An unknown option, or one of the other side, is
an error. A catalog table has one set of options for reads and writes; there each side ignores the other's options.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.access import ANONYMOUS, Access, access_of
from sprocketmq.spark.options.bound import Bound, bounds_of
from sprocketmq.spark.options.given_options import GivenOptions
from sprocketmq.spark.options.named_topics import topics_to_read
from sprocketmq.spark.options.source_columns import chosen_columns

# A pull needs a consumer group that the broker knows or may create; this is the default.
_DEFAULT_GROUP: Final = "SPARK_ROCKETMQ_SOURCE"
# Without effect in a batch read: a warning is logged, as by Spark's Kafka source.
STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay", "commitOffsets", "brokerUnavailable",
    "waitForRetries",
    "retiredBrokers",
)  # fmt: skip

log = logging.getLogger("sprocketmq.spark")


@dataclass(frozen=True)
class ReadOptions:
    """Options of the source. Limits are numbers of messages, times are milliseconds."""

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
    wait_for_retries_ms: int
    commit_offsets: Literal["eager", "lagged", "off"]
    broker_unavailable: Literal["wait", "fail"]
    retired_brokers: frozenset[str]
    loss_report: str | None
    pull_batch_size: int
    pull_pipelining: int
    pull_timeout_ms: int
    retry_timeout_ms: int
    access: Access = ANONYMOUS

    @property
    def tags(self) -> frozenset[str]:
        """The tags to accept; empty for all. The broker compares hash codes only, so readers compare the text again."""
        if self.expression_type != "TAG" or self.expression == "*":
            return frozenset()
        return frozenset(tag.strip() for tag in self.expression.split("||") if tag.strip())


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Raises ConfigurationError (an unknown name, an invalid value, or a combination that is not allowed)."""
    given = GivenOptions(options)
    given.refuse_other_side("read")
    if not streaming and (idle := [name for name in STREAM_ONLY if given.has(name)]):
        log.warning("%s is given for a batch, where it does nothing; it is for spark.readStream", idle[0])
    topics, pattern = topics_to_read(given)
    expression_type: Literal["TAG", "SQL92"] = "SQL92" if given.has("sql92") else "TAG"
    given.one_of(("tags", "sql92"))
    group = given.name("group", "")
    starting, ending = bounds_of(given, streaming)
    commit_default = "eager" if group and streaming else "off"
    read = ReadOptions(
        namesrv_addr=given.namesrv_addr(),
        topics=topics,
        topics_pattern=pattern,
        group=group or given.name("deadLettersOf", _DEFAULT_GROUP),  # whose permissions a read needs
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
        columns=chosen_columns(given),
        include_retry=given.flag("includeRetry"),
        wait_for_retries_ms=given.duration_ms("waitForRetries") if given.has("waitForRetries") else 0,
        commit_offsets=given.choice("commitOffsets", commit_default),  # type: ignore[arg-type]
        broker_unavailable=given.choice("brokerUnavailable"),  # type: ignore[arg-type]
        retired_brokers=_broker_names(given),
        loss_report=str(given.count("lossReport")) if given.has("lossReport") else None,
        pull_batch_size=given.count("pullBatchSize") or 1024,
        pull_pipelining=given.count("pullPipelining") or 8,
        pull_timeout_ms=given.duration_ms("pullTimeoutMs"),
        retry_timeout_ms=given.duration_ms("retryTimeoutMs"),
        access=access_of(given),
    )
    _check_combinations(given, read)
    return read


def _broker_names(given: GivenOptions) -> frozenset[str]:
    names = [name.strip() for name in (given.text("retiredBrokers") or "").split(",")]
    if given.has("retiredBrokers") and not all(names):
        given.refuse("retiredBrokers")
    return frozenset(filter(None, names))


def _check_combinations(given: GivenOptions, read: ReadOptions) -> None:
    if not read.include_retry:
        given.refuse_unused(("waitForRetries",), "without includeRetry", "set it to true")
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
