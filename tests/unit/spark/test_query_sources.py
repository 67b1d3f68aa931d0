# SPDX-License-Identifier: Apache-2.0
"""Who reads what is sent back: the sources of a query, by its offset log."""

from __future__ import annotations

import json
import time

import pytest

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.retry.query_sources import QuerySource, check_retries_are_read, sources_of_log
from sprocketmq.wire.records.message import MessageQueue

AT = {MessageQueue("flights", "broker-a", 0): 7}


def logged(*offsets: object, planned_ms: int | None = None, names: tuple[str, ...] = ()) -> str:
    head = {
        "batchWatermarkMs": 0,
        "batchTimestampMs": time.time_ns() // 1_000_000 if planned_ms is None else planned_ms,
    }
    lines = [offset.to_json() if isinstance(offset, StreamOffset) else offset for offset in offsets]
    texts = [json.dumps(line) for line in lines]
    if names:
        texts = [f"{name}:{text}" for name, text in zip(names, texts, strict=True)]
    return "\n".join(["v2" if names else "v1", json.dumps(head), *texts])


def test_the_offset_log_says_whose_retries_a_source_reads() -> None:
    reads = StreamOffset(AT, group="delays", includes_retry=True)
    without = StreamOffset(AT, includes_retry=False)
    for names in ((), ("flights", "files", "late")):
        assert sources_of_log(logged(reads, {"logOffset": 3}, without, names=names)) == [
            QuerySource("delays", True),
            QuerySource(None, False),
        ]


def test_a_batch_of_an_older_version_and_one_of_an_earlier_run_say_nothing() -> None:
    assert sources_of_log(logged(StreamOffset(AT))) == []
    assert sources_of_log(logged(StreamOffset(AT, includes_retry=False), planned_ms=1)) == []


@pytest.mark.parametrize(
    ("sources", "is_allowed"),
    [
        ([], True),
        ([QuerySource("delays", True)], True),
        ([QuerySource(None, False), QuerySource("delays", True)], True),
        ([QuerySource(None, False, ("%RETRY%delays",))], True),
        ([QuerySource("delays", False)], False),
        ([QuerySource("other", True), QuerySource(None, False)], False),
    ],
)
def test_one_source_of_the_query_must_read_the_retries_of_the_group(
    sources: list[QuerySource], is_allowed: bool
) -> None:
    if is_allowed:
        check_retries_are_read(sources, "delays")
    else:
        with pytest.raises(ConfigurationError, match="group 'delays' and includeRetry true"):
            check_retries_are_read(sources, "delays")
