# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from record_fields import STORED
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records.message import Message, MessageExt, MessageQueue
from sprocketmq.wire.records.properties import joined_properties
from sprocketmq.wire.records.record import decode_record, decode_records, encode_record


def test_queues_sort_as_java_sorts_them():
    queues = [
        MessageQueue("t", "b", 10),
        MessageQueue("t", "b", 2),
        MessageQueue("t", "a", 9),
        MessageQueue("s", "z", 9),
    ]
    assert sorted(queues) == [queues[3], queues[2], queues[1], queues[0]]
    assert len({MessageQueue("t", "b", 1), MessageQueue("t", "b", 1)}) == 1
    assert str(queues[0]) == "t/b/10"


def test_a_message_keeps_system_values_in_its_properties():
    message = Message(
        "T", b"x", tags="a", keys=["k1", "k2"], properties={"p": "q"}, delay_level=3, wait_store_msg_ok=False
    )
    assert message.properties == {"p": "q", "TAGS": "a", "KEYS": "k1 k2", "DELAY": "3", "WAIT": "false"}
    assert (message.tags, message.keys, message.delay_level, message.wait_store_msg_ok) == ("a", ["k1", "k2"], 3, False)
    plain = Message("T", b"x")
    assert (plain.tags, plain.keys, plain.delay_level, plain.wait_store_msg_ok) == (None, [], 0, True)


@pytest.mark.parametrize("kind", [Message, MessageExt])
@given(
    tags=st.none() | st.text("ab é", min_size=1).filter(str.strip),
    keys=st.lists(st.text("ab-", min_size=1), max_size=2),
    own=st.dictionaries(st.sampled_from(["p", "q"]), st.text("ab é", min_size=1).filter(str.strip), max_size=2),
    steps=st.lists(
        st.sampled_from(["look", "set", "remove", "identify", "tags", "keys", "delay_level", "text", "copy"]),
        max_size=8,
    ),
)
def test_a_message_is_the_same_whether_somebody_looks_at_its_properties_or_not(kind, tags, keys, own, steps):
    message = kind("T", b"x", tags=tags, keys=keys, properties=own)
    model = {**own, **({} if tags is None else {"TAGS": tags}), **({"KEYS": " ".join(keys)} if keys else {})}
    for step in steps:
        if step == "look":
            assert message.properties == model
            assert message.exposed_properties is message.properties
        elif step == "set":
            message.properties["r"] = model["r"] = "set"
        elif step == "remove":
            assert message.properties.pop("p", None) == model.pop("p", None)
        elif step == "identify" and message.unique_key is None:
            message.identify("ID")
            model["UNIQ_KEY"] = "ID"
        elif step == "tags":
            assert message.tags == model.get("TAGS")
        elif step == "keys":
            assert message.keys == model.get("KEYS", "").split()
        elif step == "delay_level":
            assert (message.delay_level, message.wait_store_msg_ok) == (0, True)
        elif step == "copy":
            message = copy.deepcopy(message)
        assert message.unique_key == model.get("UNIQ_KEY")
        assert message.properties_text == joined_properties(model)
        assert set(message.exposed_properties) in (set(), set(model))
    assert message.properties == model


def test_properties_beyond_tags_keys_and_the_users_are_always_exposed():
    assert Message("T", b"x", tags="a", keys="k", properties={"p": "q"}).exposed_properties == {}
    assert Message("T", b"x", delay_level=3).exposed_properties == {"DELAY": "3"}
    assert Message("T", b"x", tags="a", wait_store_msg_ok=False).exposed_properties == {"TAGS": "a", "WAIT": "false"}


def test_a_message_does_not_keep_the_callers_properties():
    mine = {"p": "q"}
    Message("T", b"x", properties=mine, tags="a")
    assert mine == {"p": "q"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"body": "text"}, r"body is str.*text.encode\(\)"),
        ({"body": None}, "body is NoneType.*at least 1 byte"),
        ({"body": {"delay": 5}}, r"body is dict.*json\.dumps\(value\)\.encode\(\)"),
        ({"body": 5}, r"body is int.*str\(value\)\.encode\(\)"),
        ({"tags": 5}, r"tags is 5 \(int\).*as in str\(value\)"),
        ({"tags": ["a"]}, r"tags is \['a'\] \(list\), text \(str\) is allowed; a message has one tag, as in tags='UA'"),
        ({"tags": b"a"}, r"as in bytes\(value\)\.decode\(\)"),
        ({"keys": 42}, r"keys is 42 \(int\), text or several texts are allowed.*as in str\(value\)"),
        ({"keys": [42]}, r"a key is 42 \(int\).*as in str\(value\)"),
        ({"keys": {"a": 1}}, r"keys is \{.*list\(value\.values\(\)\)"),
        ({"properties": {"p": ["a"]}}, r"as in ','\.join\(value\)"),
        ({"properties": {"p": {"a": 1}}}, r"as in json\.dumps\(value\)"),
        ({"properties": {"p": None}}, "leave it out"),
        ({"keys": ["a b"]}, "white space"),
        ({"properties": {"TAGS": "a"}}, "reserved"),
    ],
)
def test_a_users_mistake_is_named(arguments, words):
    with pytest.raises(ConfigurationError, match=words):
        Message(**{"topic": "T", "body": b"x", **arguments})


def _stored(properties: bytes) -> MessageExt:
    return decode_record(encode_record(b"T", b"x", properties, **STORED), broker_name="b")


def test_the_senders_id_goes_before_the_stored_copys():
    assert _stored(b"").message_id == _stored(b"").offset_message_id == "0A00000100002A9F000000000001E240"
    assert _stored(b"UNIQ_KEY\x01abc\x02").message_id == "abc"


def test_hosts_of_both_families_can_be_read():
    record = encode_record(b"T", b"x", b"", **{**STORED, "born_host": (bytes(15) + b"\x01", 80)})
    message = decode_record(record, broker_name="b")
    assert (message.born_host, message.store_host) == ("[::1]:80", "10.0.0.1:10911")
    assert message.message_queue == MessageQueue("T", "b", 2)


def test_properties_of_a_stored_message_can_be_changed():
    message = _stored(b"TAGS\x01a\x02")
    message.properties["MIN_OFFSET"] = "0"
    message.tags = "b"
    assert message.properties == {"TAGS": "b", "MIN_OFFSET": "0"}
    assert message.properties is message.properties


def test_a_message_can_be_made_by_hand():
    message = MessageExt(
        "T", b"x", tags="a", broker_name="b", queue_id=1, store_host="10.0.0.1:10911", commit_log_offset=123456
    )
    assert message.offset_message_id == "0A00000100002A9F000000000001E240"
    assert (message.tags, message.reconsume_times, message.born_host) == ("a", 0, "127.0.0.1:0")
    assert repr(message).startswith("MessageExt(topic='T', tags='a'")
    assert repr(Message("T", b"x")) == "Message(topic='T', tags=None, keys=[], body=1 bytes)"


def test_a_copy_of_a_received_message_has_the_fields_that_nobody_looked_at_and_those_that_were_set():
    message = _stored(b"TAGS\x01a\x02")
    message.reconsume_times += 1
    message.sys_flag = 4
    for twin in (copy.copy(message), pickle.loads(pickle.dumps(message))):
        assert (twin.reconsume_times, twin.sys_flag, twin.tags) == (1, 4, "a")
        assert (twin.commit_log_offset, twin.born_timestamp_ms) == (123456, 1700000000000)
        assert (twin.born_host, twin.offset_message_id) == (message.born_host, message.offset_message_id)
        twin.reconsume_times += 1
    assert message.reconsume_times == 1


@pytest.mark.parametrize("raw", [b"", b"TAGS\x01a\x02", b"TAGS\x01a"])
def test_more_properties_stand_behind_those_of_the_record(raw):
    record = encode_record(b"T", b"x", raw, **STORED)
    (message,) = decode_records(record, queue_id=9, more_properties=b"MAX_OFFSET\x017\x02")
    assert message.properties.pop("MAX_OFFSET") == "7"
    assert message.properties == ({"TAGS": "a"} if raw else {})
    assert message.queue_id == 9
