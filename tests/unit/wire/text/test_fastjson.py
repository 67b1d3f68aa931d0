# SPDX-License-Identifier: Apache-2.0
"""The JSON dialect: what Java peers write is read, what we write is what they would, and nothing hostile gets through."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.errors import ProtocolError
from sprocketmq.wire import bodies
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.text import fastjson
from sprocketmq.wire.text.fastjson import MAX_DEPTH, ObjectKey

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts
)
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4), max_leaves=15
)
_queues = st.builds(MessageQueue, _texts, _texts, st.integers(-(2**31), 2**31 - 1))
_keys = _texts | st.integers(-(2**63), 2**63 - 1) | _queues
_dialect = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=15,
)


@given(_values)
def test_standard_json_is_read(value):
    assert fastjson.loads(json.dumps(value).encode()) == value


@given(_values)
def test_our_own_parser_agrees_with_the_standard_one(value):
    text = json.dumps(value)
    # An object key forces the dialect's parser on the whole text.
    assert fastjson.loads(f"[{{{{}}:1}},{text}]".encode())[1] == value


@given(_dialect, st.booleans())
def test_the_dialect_comes_back(value, pretty):
    assert fastjson.loads(fastjson.dumps([value, {0: 0}], pretty=pretty))[0] == value


def test_integer_keys_have_no_quotes():
    assert fastjson.dumps({1: "b", 0: "a"}) == b'{0:"a",1:"b"}'
    assert fastjson.loads(b'{0:"a", -1 : "b"}') == {0: "a", -1: "b"}


def test_queue_keys_are_whole_objects():
    text = b'{{"brokerName":"b","queueId":0,"topic":"t"}:5}'
    table = {MessageQueue("t", "b", 0): 5}
    assert fastjson.dumps(table) == text
    assert fastjson.loads(text) == table
    assert fastjson.loads(b' { {"topic":"t" , "queueId":0,"brokerName":"b"} : 5 } ') == table


def test_other_object_keys_stay_usable():
    (key,) = fastjson.loads(b'{{"b":1,"a":2}:3}')
    assert key == ObjectKey([("a", 2), ("b", 1)])
    assert fastjson.dumps({key: 3}) == b'{{"a":2,"b":1}:3}'


def test_pretty_text_has_tabs_as_config_files_have():
    table = {"offsetTable": {"T@G": {0: 12, 1: 7}}, "dataVersion": {}}
    assert fastjson.dumps(table, pretty=True).decode() == (
        '{\n\t"dataVersion":{},\n\t"offsetTable":{\n\t\t"T@G":{\n\t\t\t0:12,\n\t\t\t1:7\n\t\t}\n\t}\n}'
    )


def test_fields_are_sorted_and_none_is_left_out():
    class Bean(msgspec.Struct):
        zeta: int
        alpha: str | None
        names: set[str]

    assert fastjson.dumps(Bean(1, None, {"b", "a"})) == b'{"names":["a","b"],"zeta":1}'
    assert fastjson.dumps_standard({0: Bean(1, "x", set())}) == b'{"0":{"alpha":"x","names":[],"zeta":1}}'


def test_escapes_of_java_are_read():
    text = rb'{0:"\b\f\n\r\t\v\"\\\/\u4e2d\u0001\x41\0\ud83d\ude80\ud800"}'
    assert fastjson.loads(text)[0] == '\b\f\n\r\t\v"\\/中\x01A\x00🚀�'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "character 0 a value is expected, found the end"),
        (b"{0:1", "character 4 ',' or '}'"),
        (b"{0 1}", "character 3 ':'"),
        (b"{0:1}x", "character 5 the text should end"),
        (b"{0:[1 2]}", "character 6 ',' or ']'"),
        (b'{0:"abc', "character 7 a string should end"),
        (b'{0:"a\\qb"}', "character 5 an escape"),
        (b"{0:-}", "character 3 a number"),
        (b"{[]:1}", "character 1 a list cannot be a key"),
        (b'{{"a":[]}:1}', "character 1 an object that is a key"),
        (b"{0:" + b"1" * 500 + b"}", "at most 400 digits"),
        (b"{0:tru}", "character 3 a value"),
        (b"\xff{", "not UTF-8"),
    ],
)
def test_an_error_says_where(text, words):
    with pytest.raises(ProtocolError, match=words):
        fastjson.loads(text)


def test_depth_is_limited():
    deep = b"{0:" * (MAX_DEPTH - 1) + b"[]" + b"}" * (MAX_DEPTH - 1)
    fastjson.loads(deep)
    for text in (b"{0:" + deep + b"}", b"[" * 100_000, b'{"a":' * 100_000):
        with pytest.raises(ProtocolError):
            fastjson.loads(text)
        with pytest.raises(ProtocolError):
            fastjson.decode(text, dict)


def test_references_are_the_objects_they_name():
    value = fastjson.loads(
        b'{"a":{"b":[{"x":1},{"y":2}]},"c":{"$ref":"$.a.b[0]"},"d":[{"$ref":"$.a"}],"e":{7:{"z":3}},"f":{"$ref":"$.e[7]"}}'
    )
    assert value["c"] is value["a"]["b"][0]
    assert value["d"][0] is value["a"]
    assert value["f"] == {"z": 3}


def test_references_know_root_self_and_parent():
    value = fastjson.loads(b'{"a":{"self":{"$ref":"@"},"up":{"$ref":".."},"root":{"$ref":"$"}}}')
    assert value["a"]["self"] is value["a"]
    assert value["a"]["up"] is value
    assert value["a"]["root"] is value


def test_references_with_escaped_names_are_found():
    value = fastjson.loads(rb'{"t":{"%RETRY%g":{"x":1}},"u":{"$ref":"$.t.\\%RETRY\\%g"}}')
    assert value["u"] == {"x": 1}


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":{"$ref":"$.b"}}',
        b'{"a":{"$ref":"$.a"}}',
        b'{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}',
        b'{"a":{"$ref":"$["}}',
        b'{"a":{"$ref":"nothing"}}',
        b'{"a":[1],"b":{"$ref":"$.a[1]"}}',
        b'{"a":[1],"b":{"$ref":"$.a.x"}}',
        b'{"a":{"$ref":""}}',
    ],
)
def test_a_reference_to_nothing_is_a_protocol_error(text):
    with pytest.raises(ProtocolError):
        fastjson.loads(text)


def test_references_cannot_describe_more_than_they_should():
    levels = ",".join(f'"a{n}":[{{"$ref":"$.a{n - 1}"}},{{"$ref":"$.a{n - 1}"}}]' for n in range(1, 40))
    with pytest.raises(ProtocolError, match="far too much"):
        fastjson.decode(f'{{"a0":[1],{levels}}}'.encode(), dict)
    with pytest.raises(ProtocolError, match="cycle"):
        fastjson.decode(b'{"a":{"$ref":"$"}}', dict)


class _Typed(msgspec.Struct):
    name: str
    addrs: dict[int, str] = {}
    table: dict[MessageQueue, int] = {}
    queues: list[MessageQueue] = []


def test_typed_reading_takes_both_dialects():
    plain = b'{"name":"n","addrs":{"0":"a"},"queues":[{"topic":"t","brokerName":"b","queueId":1}]}'
    dialect = b'{"name":"n","addrs":{0:"a"},"queues":[{"topic":"t","brokerName":"b","queueId":1}]}'
    assert fastjson.decode(plain, _Typed) == fastjson.decode(dialect, _Typed)
    assert fastjson.decode(plain, _Typed).addrs == {0: "a"}
    table = fastjson.decode(b'{"name":"n","table":{{"topic":"t","brokerName":"b","queueId":1}:5}}', _Typed).table
    assert table == {MessageQueue("t", "b", 1): 5}


def test_typed_reading_forgives_nulls_quoted_numbers_and_unknown_fields():
    typed = fastjson.decode(
        b'{"name":"n","addrs":null,"new":{"x":[null]},"queues":[{"topic":"t","brokerName":"b","queueId":"1"}]}', _Typed
    )
    assert typed == _Typed("n", queues=[MessageQueue("t", "b", 1)])


def test_typed_reading_names_what_is_wrong():
    with pytest.raises(ProtocolError):
        fastjson.decode(b"{}", _Typed)
    with pytest.raises(ProtocolError):
        fastjson.decode(b'{"name":"n","queues":5}', _Typed)


def test_what_has_no_json_form_is_a_type_error():
    with pytest.raises(TypeError, match="object has no JSON form"):
        fastjson.dumps(object())


@given(
    st.dictionaries(_queues | _texts, st.integers(-(2**63), 2**63 - 1), max_size=6),
    st.dictionaries(_texts, _dialect, max_size=3),
)
def test_a_table_is_read_pair_by_pair_as_it_is_all_at_once(table, others):
    text = fastjson.dumps({**others, "table": table})
    assert dict(fastjson.pairs(text, "table", len(text))) == fastjson.loads(text)["table"]


@given(st.dictionaries(_queues, st.integers(), min_size=1, max_size=6), st.data())
def test_a_table_that_is_cut_off_is_refused_where_it_ends(table, data):
    text = fastjson.dumps({"table": table})
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(ProtocolError):
        list(fastjson.pairs(text[:cut], "table", 4_096))


def test_nothing_is_read_beyond_the_pair_that_is_asked_for():
    pairs = fastjson.pairs(b'{"table":{"a":1,"b":2,' + b"?" * 1_000_000, "table", 100)
    assert [next(pairs), next(pairs)] == [("a", 1), ("b", 2)]
    with pytest.raises(ProtocolError):
        next(pairs)


@pytest.mark.parametrize(
    "long",
    [
        '"' + "x" * 100 + '":1',
        '"a":' + "1" * 100,
        '"a":"' + "\\n" * 50 + '"',
        '"a":' + " " * 100 + "1",
        '"a":[' + "0," * 50,
    ],
)
def test_a_pair_is_no_longer_than_it_may_be(long):
    with pytest.raises(ProtocolError):
        list(fastjson.pairs(f'{{"table":{{"ok":1,{long}}}}}'.encode(), "table", 60))
    with pytest.raises(ProtocolError):
        list(fastjson.pairs(f'{{{long},"table":{{}}}}'.encode(), "table", 60))


STATS = bodies.ConsumeStatsList(
    consume_stats_list=[
        {
            f"g{group}": [
                bodies.ConsumeStats({MessageQueue(f"t{n}", "b", n): bodies.OffsetWrapper(n) for n in range(40)})
            ]
        }
        for group in range(20)
    ]
)
TOPICS = bodies.TopicConfigSerializeWrapper({f"t{n}": bodies.TopicConfig(topic_name=f"t{n}") for n in range(800)})


@pytest.mark.parametrize("body", [STATS, TOPICS, bodies.TopicList([f"t{n}" for n in range(800)])])
def test_a_long_text_is_read_in_pieces_to_the_same(body, monkeypatch):
    text, pieces = body.encode(), []
    decode, convert = msgspec.json.decode, msgspec.convert

    def decode_piece(piece: str, *rest: Any) -> Any:
        pieces.append(len(piece))
        return decode(piece, *rest)

    def convert_piece(piece: Any, *rest: Any, **options: Any) -> Any:
        pieces.append(len(str(piece)))
        return convert(piece, *rest, **options)

    monkeypatch.setattr(msgspec.json, "decode", decode_piece)
    monkeypatch.setattr(msgspec, "convert", convert_piece)
    monkeypatch.setattr(fastjson, "MAX_REQUEST_BYTES", 100)
    monkeypatch.setattr(fastjson, "_ROWS", 8)
    assert type(body).decode(text) == body
    assert max(pieces) <= fastjson._SMALL_CHARS < len(text)


def test_a_text_has_no_more_values_than_are_read_in_seconds(monkeypatch):
    monkeypatch.setattr(fastjson, "_MOST_PIECES", 1_000)
    assert len(fastjson.loads(b"{%b}" % b",".join(b"%d:1" % n for n in range(490)))) == 490
    with pytest.raises(ProtocolError):
        fastjson.loads(b"{%b}" % b",".join(b"%d:1" % n for n in range(600)))
