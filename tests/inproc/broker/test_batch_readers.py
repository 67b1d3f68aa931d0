# SPDX-License-Identifier: Apache-2.0
"""A record with two ids is read as Java reads it. Records with two ids are what Apache 4.9.7, and
our broker before it did as 5.4.0, made of a batch of a 5.x client.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.spark.columns.decode import BatchDecoder
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.headers import UNIQUE_KEY_QUERY, QueryMessageRequestHeader
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.record import decode_records


def by_unique_key(client: Any, key: str) -> list[MessageExt]:
    header = QueryMessageRequestHeader(
        topic="flights", key=key, max_num=32, begin_timestamp=0, end_timestamp=1 << 62
    ).to_ext()
    answer = client.ask(RequestCode.QUERY_MESSAGE, None, ext_fields={**header, UNIQUE_KEY_QUERY: "true"})
    return decode_records(answer.body) if answer.code == 0 else []


def in_spark(client: Any) -> list[str]:
    """The column ``messageId``."""
    answer = client.pull("spark", "flights", 0, 0, max_messages=1000)
    body = PulledChunk(MessageQueue("flights", "broker-a", 0), 0, 1 << 62, memoryview(answer.body))
    decoder = BatchDecoder(pa.schema([("messageId", pa.string())]))
    (batch,) = decoder.decode([body])
    return [str(one) for one in batch.column(0).to_pylist()]


@pytest.mark.parametrize("count", [3, 40])
def test_of_two_ids_in_one_record_the_last_counts_for_every_reader(client, count):
    for number in range(count):
        raw = f"number\x010\x02UNIQ_KEY\x01OWN{number:05d}\x02WAIT\x01true\x02UNIQ_KEY\x01OFBATCH\x02CLUSTER\x01c\x02"
        element = {"i": raw, "a": "p", "b": "flights", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
        assert client.ask(RequestCode.SEND_MESSAGE_V2, None, b"body", ext_fields=element).code == 0
    assert [message.message_id for message in client.messages("flights")] == ["OFBATCH"] * count
    assert in_spark(client) == ["OFBATCH"] * count
    assert len(by_unique_key(client, "OFBATCH")) == min(count, 32)
    assert by_unique_key(client, "OWN00001") == []
