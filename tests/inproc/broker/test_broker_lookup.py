# SPDX-License-Identifier: Apache-2.0
"""Looking up stored messages: codes 12 and 33."""

from __future__ import annotations

from typing import Any

from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import UNIQUE_KEY_QUERY, QueryMessageRequestHeader
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.records.record import decode_records

FOREVER = {"begin_timestamp": 0, "end_timestamp": 1 << 62}


def query(
    client: Any, key: str, topic: str = "flights", max_num: int = 32, unique: bool = False, **options: Any
) -> Any:
    header = QueryMessageRequestHeader(topic=topic, key=key, max_num=max_num, **{**FOREVER, **options})
    ext = header.to_ext()
    if unique:
        ext[UNIQUE_KEY_QUERY] = "true"
    return client.ask(RequestCode.QUERY_MESSAGE, None, ext_fields=ext)


def test_messages_are_found_by_each_of_their_keys_at_once_and_in_the_order_of_the_log(client):
    for number in range(3):
        client.send("flights", b"%d" % number, properties={"KEYS": f"N14228 order-{number}"})
    answer = query(client, "N14228")
    assert answer.code == 0
    assert [message.body for message in decode_records(answer.body)] == [b"0", b"1", b"2"]
    assert int(answer.ext_fields["indexLastUpdatePhyoffset"]) > 0
    assert int(answer.ext_fields["indexLastUpdateTimestamp"]) > 0
    assert [message.body for message in decode_records(query(client, "order-1").body)] == [b"1"]
    assert [message.body for message in decode_records(query(client, "key-2", unique=True).body)] == [b"2"]


def test_a_query_gets_the_newest_up_to_its_limit_and_a_unique_key_query_up_to_the_brokers(client):
    for number in range(40):
        client.send("flights", b"%d" % number, properties={"KEYS": "k", "UNIQ_KEY": "u"})
    assert [message.body for message in decode_records(query(client, "k", max_num=2).body)] == [b"38", b"39"]
    assert len(decode_records(query(client, "u", max_num=1, unique=True).body)) == 32
    assert len(decode_records(query(client, "k", max_num=1_000).body)) == 40


def test_a_query_without_a_hit_is_answered_with_not_found(client):
    client.send("flights", properties={"KEYS": "k"})
    for answer in (
        query(client, "other"),
        query(client, "k", topic="nowhere"),
        query(client, "k", end_timestamp=5),
        query(client, "k", begin_timestamp=1 << 61),
        query(client, "k", begin_timestamp=-5, end_timestamp=-6),
        query(client, "k", max_num=0),
        query(client, ""),
    ):
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert answer.ext_fields == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
        assert "in this time range" in answer.remark


def test_tags_are_found_by_index_type(client):
    client.send("flights", b"1", tags="UA")
    client.send("flights", b"2", tags="DL")
    answer = query(client, "DL", index_type="T")
    assert [message.body for message in decode_records(answer.body)] == [b"2"]
    assert query(client, "DL", index_type="K").code == ResponseCode.QUERY_NOT_FOUND


def test_a_message_is_viewed_by_its_offset_id_and_an_invented_offset_gets_an_error(client):
    answer = client.send("flights", b"seen")
    _, offset = decode_offset_message_id(answer.ext_fields["msgId"])
    (message,) = decode_records(client.do(requests.messages.VIEW_MESSAGE_BY_ID, offset=offset).body)
    assert message.body == b"seen"
    for wrong in (offset + 1, -1, 1 << 62, -(1 << 63)):
        answer = client.do(requests.messages.VIEW_MESSAGE_BY_ID, offset=wrong)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert str(wrong) in answer.remark
    for value in ("", "x", "9" * 40):
        answer = client.ask(RequestCode.VIEW_MESSAGE_BY_ID, None, ext_fields={"offset": value})
        assert answer.code == ResponseCode.SYSTEM_ERROR
