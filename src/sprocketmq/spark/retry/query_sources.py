# SPDX-License-Identifier: Apache-2.0
"""Whether a query reads the retries of the rows that it sends back, by the options of its rocketmq sources: in a classic session from the
query's logical plan, with Spark Connect from the batch in the offset log. What cannot be traced (another source, an older offset log, a
batch that an earlier run planned, another version of Spark's classes) is never an error."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sprocketmq.core.resource_names import RETRY_PREFIX
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.checkpoint_files import logged_sources
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.options.read_options import ReadOptions, read_options
from sprocketmq.spark.options.source_columns import TABLE_OPTIONS

# Spark Connect starts a Python process for the foreachBatch function of each run, before the run plans a batch.
_PROCESS_BEGAN_MS: Final = time.time_ns() // 1_000_000


@dataclass(frozen=True)
class QuerySource:
    """One rocketmq source. ``group`` is None if the source has none; ``topics`` are those that it names."""

    group: str | None
    includes_retry: bool
    topics: tuple[str, ...] = ()

    def reads_retries_of(self, group: str) -> bool:
        return (self.includes_retry and self.group == group) or RETRY_PREFIX + group in self.topics

    def __str__(self) -> str:
        group = "no group" if self.group is None else f"group {self.group!r}"
        return f"{group} and includeRetry {str(self.includes_retry).lower()}"


def check_retries_are_read(sources: Iterable[QuerySource], group: str) -> None:
    """Raise ConfigurationError if there are sources and none reads the retries of ``group``."""
    found = list(sources)
    if found and not any(source.reads_retries_of(group) for source in found):
        raise ConfigurationError(
            f"foreach_batch sends rows back to group {group!r}, and the query's source has {'; '.join(map(str, found))}, so nobody "
            "would read them again; give the source .options(**retry.source_options) of this function, or group "
            f"{group!r} and includeRetry true; or call foreach_batch with check_source=False if another query or consumer reads "
            f"{RETRY_PREFIX}{group}"
        )


def sources_of_plan(query: Any) -> list[QuerySource]:
    return [
        QuerySource(options.group if options.group_given else None, options.include_retry, options.topics)
        for options in options_of_plan(query)
    ]


def options_of_plan(query: Any) -> list[ReadOptions]:
    """The options of the sources of a running query of a classic session (``MicroBatchExecution``, by py4j)."""
    from py4j.protocol import Py4JError

    try:
        leaves = query.logicalPlan().collectLeaves()
        return list(_source_options(leaves.apply(at) for at in range(leaves.size())))
    except Py4JError:
        return []


def _source_options(leaves: Iterable[Any]) -> Iterator[ReadOptions]:
    for leaf in leaves:
        if not leaf.getClass().getSimpleName().startswith("StreamingDataSourceV2"):
            continue
        given = {str(name): str(value) for name, value in leaf.relation().options().asCaseSensitiveMap().items()}
        output = leaf.output()
        for at in range(output.size()):  # a table of the catalog has its options here (``RocketMQDataSource``)
            metadata = json.loads(output.apply(at).metadata().json())
            given = {**json.loads(metadata.get(TABLE_OPTIONS, "{}")), **given}
        try:
            yield read_options(given, streaming=True)
        except ConfigurationError:
            continue  # another source


def sources_of_log(text: str) -> list[QuerySource]:
    """The sources by a batch's file in the offset log; empty if an earlier run planned the batch."""
    head = text.split("\n")[1]
    if json.loads(head).get("batchTimestampMs", 0) < _PROCESS_BEGAN_MS:
        return []
    found = []
    for _, line in logged_sources(text):
        try:
            offset = StreamOffset.from_json(json.loads(line))
        except (ValueError, ConfigurationError):
            continue  # another source
        if offset.includes_retry is not None:
            found.append(QuerySource(offset.group, offset.includes_retry))
    return found
