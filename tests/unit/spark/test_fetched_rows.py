# SPDX-License-Identifier: Apache-2.0
"""Bad rows are checked by a few that stand for all, and sent back many at a time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.errors import ConfigurationError, RequestTimeout
from sprocketmq.spark import foreach_batch
from sprocketmq.spark.retry.fetched_rows import FetchedRows
from sprocketmq.spark.retry.send_back import send_each

SCHEMA = pa.schema(
    {
        "brokerName": pa.string(),
        "commitLogOffset": pa.int64(),
        "topic": pa.string(),
        "messageId": pa.string(),
        "reconsumeTimes": pa.int32(),
        "delayLevel": pa.int32(),
        "action": pa.string(),
    }
)
ROW = st.tuples(
    st.sampled_from(["broker-a", "broker-b", "broker-b", None]),
    st.sampled_from([0, 7, 9, 9, -1, None]),
    st.sampled_from(["flights", "not a name", None]),
    st.just("ID"),
    st.sampled_from([0, 2, 3, None]),
    st.sampled_from([0, 18, None]),  # those that are not allowed stop the batch earlier
    st.sampled_from(["retry", "DLQ", "drop", None]),
)


@given(st.lists(ROW, max_size=6))
def test_what_is_found_in_rows_is_found_in_those_that_stand_for_them(drawn: list[tuple[Any, ...]]) -> None:
    retry = foreach_batch(lambda rows, _: rows, write=lambda *_: None, group="g", namesrv_addr="a:1", max_reconsume=3)
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in drawn], SCHEMA)
    bad = FetchedRows(SimpleNamespace(toArrow=lambda: table))  # type: ignore[arg-type]

    def found(rows: Any) -> tuple[bool, set[str], bool]:
        try:
            kept = [row for row in rows if row is not None]
        except ConfigurationError:
            return True, set(), False
        return False, {row.message.broker_name for row in kept}, any(row.message.delay_level >= 0 for row in kept)

    assert found(retry._kinds(bad)) == found(map(retry._bad_row, bad))


def test_after_an_error_no_further_row_is_sent() -> None:
    begun = []

    async def send(row: int) -> None:
        begun.append(row)
        await asyncio.sleep(0)
        raise RequestTimeout("the broker did not answer", "a:1", 5_000)

    with pytest.raises(RequestTimeout):
        asyncio.run(send_each(range(10_000), send))
    assert 1 < len(begun) < 1_000
