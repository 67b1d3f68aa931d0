# SPDX-License-Identifier: Apache-2.0
"""What the recording is made of: sends, batches and pulls with one odd thing each, under both encodings of a header."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from golden import frames

Reads = list[bytes]

PROPERTIES = "UNIQ_KEY\x01AC1F00010001\x02WAIT\x01true\x02TAGS\x01A\x02"
_FIXED = struct.Struct(">hBhii")
_JAVA, _VERSION = 0, 409


# -- frames ------------------------------------------------------------------------------------------------------------------------


def text_frame(header: dict[str, Any] | bytes, body: bytes = b"") -> bytes:
    """A frame whose header is JSON, or any text."""
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def binary_frame(code: int, fields: dict[str, Any], body: bytes = b"", flag: int = 0, opaque: int = 7) -> bytes:
    """A frame with the binary header; a value that is None is an empty one, as Java writes null."""
    ext = b""
    for name, value in fields.items():
        text = b"" if value is None else str(value).encode()
        ext += struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(text)) + text
    header = _FIXED.pack(code, _JAVA, _VERSION, opaque, flag) + struct.pack(">ii", 0, len(ext)) + ext
    return struct.pack(">ii", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body


def request(code: int, fields: dict[str, Any], body: bytes = b"", flag: int = 0, *, binary: bool = False) -> bytes:
    """A request under one of the two encodings; fields that are None are left out."""
    fields = {name: value for name, value in fields.items() if value is not None}
    if binary:
        return binary_frame(code, fields, body, flag)
    header = {"code": code, "extFields": fields, "flag": flag, "language": "JAVA", "opaque": 7}
    return text_frame({**header, "serializeTypeCurrentRPC": "JSON", "version": _VERSION}, body)


def send_fields(**changed: Any) -> dict[str, Any]:
    """The header of an ordinary send, with the changes."""
    values = ("producers", "plain", "TBW102", "4", "1", "0", "1795276800000", "0", PROPERTIES, "0", "false", "false")
    return {**dict(zip("abcdefghijkm", values, strict=True)), **changed}


def send(body: bytes = b"body", /, *, binary: bool = False, code: int = 310, flag: int = 0, **changed: Any) -> bytes:
    """A send, its fields under one letter each."""
    return request(code, send_fields(**changed), body, flag, binary=binary)


def pull(*, binary: bool = False, code: int = 11, flag: int = 0, **changed: Any) -> bytes:
    """A pull of queue 0 that brings its own subscription."""
    fields = {
        "commitOffset": "0",
        "consumerGroup": "g",
        "expressionType": "TAG",
        "maxMsgNums": "32",
        "queueId": "0",
        "queueOffset": "0",
        "subVersion": "0",
        "subscription": "*",
        "suspendTimeoutMillis": "15000",
        "sysFlag": "4",
        "topic": "plain",
        **changed,
    }
    return request(code, fields, b"", flag, binary=binary)


def element(body: bytes, raw: bytes, flag: int = 0, magic: int = 0) -> bytes:
    """One message of a batch."""
    size = 22 + len(body) + len(raw)
    return struct.pack(">iiiii", size, magic, 0, flag, len(body)) + body + struct.pack(">H", len(raw)) + raw


def alike(number: int, *, key: bytes = b"", tags: bytes = b"A", flag: int = 0, keys: bytes = b"order") -> bytes:
    """A message of a batch whose messages look alike."""
    raw = b"UNIQ_KEY\x01" + (key or b"%08d" % number) + b"\x02KEYS\x01" + keys + b"\x02TAGS\x01" + tags + b"\x02"
    return element(b"%060d" % number, raw, flag)


# -- sends -------------------------------------------------------------------------------------------------------------------------

ODD_SENDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one-way": {"flag": 2},
    "one-way to an unknown queue": {"flag": 2, "e": "9"},
    "retried": {"j": "3"},
    "delayed": {"i": PROPERTIES + "DELAY\x011\x02"},
    "delayed one-way": {"i": PROPERTIES + "DELAY\x013\x02", "flag": 2},
    "delayed at level 0": {"i": PROPERTIES + "DELAY\x010\x02"},
    "delayed at a level too many": {"i": PROPERTIES + "DELAY\x0199\x02"},
    "timed": {"i": PROPERTIES + "TIMER_DELAY_SEC\x015\x02"},
    "timed at a moment": {"i": PROPERTIES + "TIMER_DELIVER_MS\x011795276860000\x02"},
    "timed too far ahead": {"i": PROPERTIES + "TIMER_DELIVER_MS\x011995276860000\x02"},
    "half": {"i": PROPERTIES + "TRAN_MSG\x01true\x02PGROUP\x01producers\x02", "f": "4"},
    "half and timed": {"i": PROPERTIES + "TRAN_MSG\x01true\x02TIMER_DELAY_SEC\x015\x02", "f": "4"},
    "prepared": {"f": "4"},
    "popped": {"i": PROPERTIES + "POP_CK\x01x\x02"},
    "no wait for the disk": {"i": PROPERTIES.replace("WAIT\x01true", "WAIT\x01false")},
    "quote in the key": {"i": PROPERTIES.replace("AC1F", 'A"1F')},
    "backslash in the key": {"i": PROPERTIES.replace("AC1F", "A\\1F")},
    "letters of another script in the key": {"i": PROPERTIES.replace("AC1F", "ключ")},
    "letters of another script in a value": {"i": PROPERTIES + "city\x01Zürich 東京 😀\x02"},
    "letters of another script in the tags": {"i": PROPERTIES.replace("TAGS\x01A", "TAGS\x01Ä")},
    "a control character in a value": {"i": PROPERTIES + "own\x01a\x00b\tc\x02"},
    "a name in the key": {"i": PROPERTIES.replace("AC1F", "DELAY\x01")},
    "no key": {"i": "TAGS\x01A\x02"},
    "an empty key": {"i": "UNIQ_KEY\x01\x02TAGS\x01A\x02"},
    "two keys": {"i": PROPERTIES + "UNIQ_KEY\x01second\x02"},
    "a second key that is the probe": {"i": PROPERTIES + "UNIQ_KEY\x010\x02"},
    "another name that ends alike, and the probe": {"i": "X_UNIQ_KEY\x01A\x02UNIQ_KEY\x010\x02"},
    "key last without its end": {"i": "TAGS\x01A\x02UNIQ_KEY\x01AC1F"},
    "tags last without their end": {"i": PROPERTIES[:-1]},
    "another name that ends alike": {"i": "X_UNIQ_KEY\x01other\x02" + PROPERTIES},
    "other tags": {"i": PROPERTIES.replace("TAGS\x01A", "TAGS\x01B")},
    "tags twice": {"i": PROPERTIES + "TAGS\x01B\x02"},
    "keys": {"i": PROPERTIES + "KEYS\x01one two\x02"},
    "no properties": {"i": None},
    "empty properties": {"i": ""},
    "properties without a separator": {"i": "nothing"},
    "marks of another broker": {"i": PROPERTIES + "CLUSTER\x01far\x02TRACE_ON\x01false\x02"},
    "long properties": {"i": PROPERTIES + "own\x01" + "x" * 32_700 + "\x02"},
    "unknown topic": {"b": "unknown"},
    "unknown topic, no default": {"b": "unknown", "c": "nothing"},
    "a name that is no topic": {"b": "a b"},
    "an empty topic": {"b": ""},
    "retry topic": {"b": "%RETRY%g"},
    "retry topic, too often": {"b": "%RETRY%g", "j": "17", "l": "16"},
    "the broker's own topic": {"b": "SCHEDULE_TOPIC_XXXX"},
    "the timer's topic": {"b": "rmq_sys_wheel_timer"},
    "a queue too many": {"e": "4"},
    "a batch of one by the flag": {"m": "true"},
    "IPv6 bit": {"f": "16"},
    "compressed": {"f": "257"},
    "compressed and many tags": {"f": "259"},
    "a number with an underscore": {"h": "1_0"},
    "another broker's name": {"n": "broker-z"},
    "a field that nobody knows": {"zz": "nobody"},
    "a negative flag": {"h": "-7"},
    **{f"without {name}": {name: None} for name in "abcdefghjkm"},
    **{
        f"{name} is {value!r}": {name: value}
        for name in "degh"
        for value in ("007", " 1", "+1", "٣", "", "x", "19", "99999999999", "4095", "4096")
    },
    **{f"{name} is 'x'": {name: "x"} for name in "fjklm"},
}
# Values that are no texts: only JSON has them.
NO_TEXTS: dict[str, Any] = {"null": None, "a number": 1, "true": True, "a float": 1.5}
HEADERS: dict[str, bytes] = {
    "fields are null": b'{"code":310,"extFields":null,"opaque":1}',
    "hardly any field": b'{"code":310,"extFields":{"a":"p"},"opaque":1}',
    "cut off": b'{"code":310,"opaque":1',
    "two codes": b'{"code":310,"code":11,"extFields":{},"opaque":1}',
    "no UTF-8": b'{"code":310,"extFields":{"b":"\xff\xfe"},"opaque":1}',
    "a pull of a topic alone": b'{"code":11,"extFields":{"topic":"plain"},"opaque":1}',
    "deep": b'{"code":11,"extFields":' + b"[" * 5000 + b"}",
    "nothing": b"",
    "a list": b"[]",
}


def _sends() -> Iterator[tuple[str, Reads]]:
    for name, changed in ODD_SENDS.items():
        odd = {"flag": 0, **changed}
        for binary in (False, True):
            # A plain one first, so that what is remembered of it is there; the odd one twice, as it may be remembered too.
            data = b"".join(send(binary=binary, **fields) for fields in ({}, odd, odd, {}))
            yield f"send, {'binary' if binary else 'JSON'}: {name}", [data]
    for kind, value in NO_TEXTS.items():
        for name in "abcdefghijkmn":
            header = {"code": 310, "extFields": {**send_fields(), name: value}, "flag": 0, "language": "JAVA"}
            data = text_frame({**header, "opaque": 7, "version": _VERSION}, b"body")
            yield f"send, JSON: {name} is {kind}", [send() + data + data + send()]
    for name, value in {"flag": None, "language": None, "opaque": None, "remark": None, "version": None}.items():
        yield f"send, JSON: {name} of the header is null", [_with_head(**{name: value}) + send()]
    for name in ("flag", "language", "opaque", "version"):
        yield f"send, JSON: {name} of the header is odd", [_with_head(**{name: "x"}) + send()]
        yield f"send, JSON: {name} of the header is large", [_with_head(**{name: 2**31}) + send()]
    spaced = json.dumps({"flag": 0, "opaque": 3, "extFields": send_fields(), "code": 310}, indent=1).encode()
    yield "send, JSON: another order, and spaces", [text_frame(spaced, b"body") + send()]
    for name, text in HEADERS.items():
        yield f"header: {name}", [text_frame(text, b"body") + send()]
    for name, body in {"no body": b"", "a large body": b"x" * (4 << 20 | 1), "a body of 3 KB": b"body" * 768}.items():
        for binary in (False, True):
            yield f"send, {'binary' if binary else 'JSON'}: {name}", [send(body, binary=binary) + send(binary=binary)]
    v1 = {
        "producerGroup": "producers",
        "topic": "plain",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "1",
        "sysFlag": "0",
        "bornTimestamp": "1795276800000",
        "flag": "0",
        "properties": PROPERTIES,
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    for binary in (False, True):
        changes: tuple[dict[str, Any], ...] = ({}, {"queueId": "x"}, {"topic": None}, {"properties": None})
        for changed in changes:
            data = b"".join(request(10, {**v1, **changed}, b"body", flag, binary=binary) for flag in (0, 2))
            yield f"send of the first version, {'binary' if binary else 'JSON'}: {changed}", [data]
    broken = send(binary=True)
    yield "send, binary: cut in its fields", [send(binary=True) + broken[:40] + b"\x7f" + broken[41:] + send()]


def _with_head(**changed: Any) -> bytes:
    header = {"code": 310, "extFields": send_fields(), "flag": 0, "language": "JAVA", "opaque": 7, "version": _VERSION}
    return text_frame({**header, **changed}, b"body")


# -- batches -----------------------------------------------------------------------------------------------------------------------

OF_THE_BATCH: dict[str, str | None] = {
    "none": "",
    "WAIT": "WAIT\x01true\x02",
    "no WAIT": "WAIT\x01false\x02",
    "marks": "CLUSTER\x01far\x02TRACE_ON\x01false",
    "a key": "UNIQ_KEY\x01x\x02",
    "as 5.4.0": "UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02",
    "as 4.9": "WAIT\x01true",
    "WAIT twice": "WAIT\x01true\x02WAIT\x01true",
    "key last": "WAIT\x01true\x02UNIQ_KEY\x01last",
    "two keys": "UNIQ_KEY\x01first\x02UNIQ_KEY\x01second\x02",
    "two keys, one the probe": "UNIQ_KEY\x01first\x02UNIQ_KEY\x010\x02",
    "another key": "X_UNIQ_KEY\x01other\x02",
    "another key, and the probe": "X_UNIQ_KEY\x01other\x02UNIQ_KEY\x010",
    "an empty key": "UNIQ_KEY\x01\x02",
    "a quote": 'UNIQ_KEY\x01"\x02',
    "another script": "UNIQ_KEY\x01é\x02",
    "delayed": "UNIQ_KEY\x01x\x02DELAY\x011\x02",
    "timed": "UNIQ_KEY\x01x\x02TIMER_DELIVER_MS\x011\x02",
    "tags": "TAGS\x01Z\x02",
    "missing": None,
}
ELEMENTS: dict[str, bytes] = {
    "tagged": b"UNIQ_KEY\x01%08d\x02TAGS\x01A\x02",
    "no end": b"UNIQ_KEY\x01%08d\x02TAGS\x01A",
    "key last": b"TAGS\x01A\x02KEYS\x01k\x02UNIQ_KEY\x01%08d",
    "two keys": b"UNIQ_KEY\x01%08d\x02UNIQ_KEY\x010\x02",
    "as Java": b"UNIQ_KEY\x01%08d\x02WAIT\x01true\x02WAIT\x01true\x02TAGS\x01A\x02",
    "everything twice": b"UNIQ_KEY\x01%08d\x02KEYS\x01k\x02TAGS\x01A\x02UNIQ_KEY\x01X\x02KEYS\x01k\x02TAGS\x01A\x02",
    "keys that differ": b"number\x010\x02KEYS\x01key-%08d\x02WAIT\x01true\x02TAGS\x01A",
    "delayed": b"UNIQ_KEY\x01%08d\x02DELAY\x011\x02",
    "delayed at level 0": b"UNIQ_KEY\x01%08d\x02DELAY\x010\x02",
    "timed": b"UNIQ_KEY\x01%08d\x02TIMER_DELAY_SEC\x011\x02",
    "a quote": b'UNIQ_KEY\x01"%08d\x02',
    "another script": "UNIQ_KEY\x01é%08d\x02city\x01Zürich\x02".encode(),
    "no key": b"KEYS\x01%08d\x02",
    "no properties": b"",
    "another key": b"X_UNIQ_KEY\x01a\x02UNIQ_KEY\x01%08d\x02",
    "long properties": b"UNIQ_KEY\x01%08d\x02own\x01" + b"x" * 32_700 + b"\x02",
}
ONE_ODD: dict[str, bytes] = {
    "alike": alike(9),
    "another flag": alike(9, flag=7),
    "other keys": alike(9, keys=b"other"),
    "other tags": alike(9, tags=b"B"),
    "tags in the key": alike(9, key=b"a\x02TAGS\x01C"),
    "separators in the key": alike(9, key=b"k\x02\x01\x02\x01xy"),
    "a short key": alike(9, key=b"short"),
    "cut off": alike(9)[:-1],
    "no properties": element(b"%060d" % 9, b""),
    "no body": element(b"", b"UNIQ_KEY\x01k\x02"),
    "a longer body": element(b"x" * 400, b"UNIQ_KEY\x01k\x02TAGS\x01A\x02"),
    "delayed": element(b"%060d" % 9, b"UNIQ_KEY\x01%08d\x02DELAY\x01%08d\x02TAGS\x01A\x02" % (9, 1)),
    "a magic of its own": element(b"%060d" % 9, b"UNIQ_KEY\x01%08d\x02KEYS\x01order\x02TAGS\x01A\x02" % 9, 0, 5),
    "a size below a head": struct.pack(">i", 5) + b"x" * 60,
    "a size of nothing": struct.pack(">i", 0) + b"x" * 60,
    "a negative size": struct.pack(">i", -1) + b"x" * 60,
    "a body longer than it": struct.pack(">iiiii", 100, 0, 0, 0, 1000) + b"x" * 80,
}


def _batches() -> Iterator[tuple[str, Reads]]:
    def batch(body: bytes, *, binary: bool = False, flag: int = 0, **changed: Any) -> bytes:
        return send(body, code=320, binary=binary, flag=flag, **{"i": "", "m": "true", **changed})

    body = b"".join([alike(number) for number in range(20)])
    for name, common in OF_THE_BATCH.items():
        for binary in (False, True):
            # Each twice, as it may be remembered; the plain ones between, so that there is something to mix it up with.
            data = b"".join(batch(body, i=i, binary=binary) for i in ("", common, "UNIQ_KEY\x01other\x02", common))
            yield f"batch, {'binary' if binary else 'JSON'}: {name}", [data]
    for name, raw in ELEMENTS.items():
        for count in (3, 20):
            parts = [element(b"body %04d" % n * 5, raw % n if b"%" in raw else raw, n % 3) for n in range(count)]
            data = batch(b"".join(parts)) + batch(b"".join(parts), i="UNIQ_KEY\x01K\x02WAIT\x01true\x02")
            yield f"batch of {count} messages: {name}", [data]
    for name, odd in ONE_ODD.items():
        for at in (0, 10, 20):
            parts = [alike(number) for number in range(20)]
            yield f"batch with one odd message at {at}: {name}", [batch(b"".join([*parts[:at], odd, *parts[at:]]))]
    for name, changed in ODD_SENDS.items():
        if not {"i", "m"} & changed.keys() and name.split()[0] not in ("without", "d", "g", "h"):
            data = b"".join(batch(body, **fields) for fields in ({}, {"flag": 0, **changed}, {"flag": 0, **changed}))
            yield f"batch: {name}", [data]
    yield "batch: no message", [batch(b"") + batch(b"\x00")]
    yield "batch: many messages", [batch(b"".join([alike(number) for number in range(300)]))]
    yield "batch: two kinds in turns", [batch(b"".join([alike(n, tags=b"A" * (1 + n % 2)) for n in range(40)]))]
    yield "batch: by its flag, not its code", [send(body, m="true", i="") + send(body, m="true", i="", flag=2)]


# -- pulls -------------------------------------------------------------------------------------------------------------------------

ODD_PULLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "from the middle": {"queueOffset": "3"},
    "at the end": {"queueOffset": "9"},
    "behind the end": {"queueOffset": "900"},
    "before the beginning": {"queueOffset": "-1"},
    "an empty queue": {"queueId": "3"},
    "an empty queue, not from its beginning": {"queueId": "3", "queueOffset": "4"},
    "another queue, few": {"queueId": "1", "maxMsgNums": "2"},
    "few bytes": {"queueId": "1", "maxMsgBytes": "1"},
    "some bytes": {"maxMsgBytes": "300"},
    "negative bytes": {"maxMsgBytes": "-1"},
    "odd bytes": {"maxMsgBytes": "x"},
    "none": {"maxMsgNums": "0"},
    "less than none": {"maxMsgNums": "-5"},
    "too many": {"maxMsgNums": "100000"},
    "a queue too many": {"queueId": "4"},
    "a queue below none": {"queueId": "-1"},
    "an odd queue": {"queueId": "x"},
    "an odd offset": {"queueOffset": "٣"},
    "progress": {"sysFlag": "5", "commitOffset": "2"},
    "progress, odd": {"sysFlag": "5", "commitOffset": "x"},
    "parked": {"sysFlag": "6", "queueOffset": "9"},
    "parked, with progress": {"sysFlag": "7", "queueOffset": "9", "commitOffset": "8"},
    "parked for no time": {"sysFlag": "6", "queueOffset": "9", "suspendTimeoutMillis": "0"},
    "parked for less than no time": {"sysFlag": "6", "queueOffset": "9", "suspendTimeoutMillis": "-1"},
    "parked, one-way": {"sysFlag": "6", "queueOffset": "9", "flag": 2},
    "one-way": {"flag": 2},
    "tags": {"subscription": "A"},
    "other tags": {"subscription": "B || C"},
    "tags that nobody sends": {"subscription": "no-such-tag"},
    "tags that nobody sends, parked": {"subscription": "wakes", "sysFlag": "6"},
    "nothing but separators": {"subscription": "||"},
    "an empty expression": {"subscription": ""},
    "no expression": {"subscription": None},
    "no kind of expression": {"expressionType": None},
    "sql92": {"subscription": "TAGS = 'B'", "expressionType": "SQL92"},
    "sql92 of a property": {"subscription": "number > 3", "expressionType": "SQL92"},
    "sql92 that nothing matches, parked": {"subscription": "number > 99", "expressionType": "SQL92", "sysFlag": "6"},
    "sql92 that is none": {"subscription": "a >", "expressionType": "SQL92"},
    "sql92 that is empty": {"subscription": "", "expressionType": "SQL92"},
    "a kind that nobody knows": {"expressionType": "odd"},
    "unknown topic": {"topic": "unknown"},
    "an empty topic": {"topic": ""},
    "no topic": {"topic": None},
    "no group": {"consumerGroup": None},
    "an empty group": {"consumerGroup": ""},
    "of a heartbeat": {"consumerGroup": "all", "sysFlag": "0", "subscription": None},
    "of a heartbeat, progress": {"consumerGroup": "all", "sysFlag": "1", "commitOffset": "2"},
    "of a heartbeat, tags": {"consumerGroup": "some", "sysFlag": "0"},
    "of a heartbeat, sql92": {"consumerGroup": "sql", "sysFlag": "0"},
    "of a heartbeat, sql92, parked": {"consumerGroup": "sql", "sysFlag": "2", "queueOffset": "9"},
    "of a heartbeat, broadcasting": {"consumerGroup": "crowd", "sysFlag": "0"},
    "of a heartbeat, another topic": {"consumerGroup": "all", "sysFlag": "0", "topic": "wide"},
    "of a heartbeat, newer": {"consumerGroup": "all", "sysFlag": "0", "subVersion": "99"},
    "of a heartbeat, parked": {"consumerGroup": "all", "sysFlag": "2", "queueOffset": "9"},
    "of nobody": {"consumerGroup": "gone", "sysFlag": "0"},
    "of a group that may not": {"consumerGroup": "silent", "sysFlag": "0"},
    "of a group that may not, on its own": {"consumerGroup": "silent"},
    "lite": {"code": 361},
    "a broker's name": {"bname": "broker-a"},
    "a proxy's client": {"proxyFrowardClientId": "client", "requestSource": "0"},
    "a sub version that is none": {"subVersion": "x"},
    "no numbers at all": {"queueOffset": None},
    "a field that nobody knows": {"zz": "nobody"},
}
_GROUPS = (
    ("all", "*", "TAG", "CLUSTERING"),
    ("some", "B", "TAG", "CLUSTERING"),
    ("sql", "number > 3", "SQL92", "CLUSTERING"),
    ("crowd", "*", "TAG", "BROADCASTING"),
    ("silent", "*", "TAG", "CLUSTERING"),
)


def _pulls() -> Iterator[tuple[str, Reads]]:
    for name, changed in ODD_PULLS.items():
        odd = {"flag": 0, **changed}
        for binary in (False, True):
            wakes = send(b"wakes", e="0", i=f"{PROPERTIES.replace('A', 'wakes')}number\x01100\x02", binary=binary)
            data = pull(binary=binary, **odd)
            # Twice: what the first one notes is known to the second one. Then something that wakes who waits.
            reads = [_messages(), _members(), data, data + data, wakes, pull(binary=binary)]
            yield f"pull, {'binary' if binary else 'JSON'}: {name}", reads
    for kind, value in NO_TEXTS.items():
        for name in ("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "subscription"):
            reads = [_messages(), pull() + pull(**{name: value} if value is not None else {})]
            fields = json.dumps(
                {"consumerGroup": "g", "topic": "plain", "queueId": "0", "queueOffset": "0", name: value}
            )
            text = f'{{"code":11,"extFields":{fields},"opaque":5,"flag":0}}'.encode()
            yield f"pull, JSON: {name} is {kind}", [*reads, text_frame(text)]
    large = [send(b"%d" % n * size, e="2") for n, size in enumerate((30_000, 5_000, 70_000, 1, 40_000, 2, 1, 30_000))]
    for name, limit in {"large": None, "large, some": "40000", "large, one": "1"}.items():
        reads = [b"".join(large), pull(queueId="2", maxMsgBytes=limit), pull(queueId="2", queueOffset="2") * 3]
        yield f"pull: {name}", reads


def _messages() -> bytes:
    frames_of_queue = [
        send(
            b"%d" % n,
            e="0",
            i=f"{PROPERTIES.replace('TAGS' + chr(1) + 'A', 'TAGS' + chr(1) + 'AB'[n % 2])}number\x01{n}\x02",
        )
        for n in range(9)
    ]
    return b"".join([*frames_of_queue, *(send(b"%d" % n, e="1") for n in range(5))])


def _members() -> bytes:
    """A heartbeat of a client that is a member of all groups, and what the groups may."""
    groups = [
        {"groupName": group, "consumeEnable": group != "silent", "consumeBroadcastEnable": False}
        for group, *_ in _GROUPS
    ]
    consumers = [
        {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": group,
            "messageModel": model,
            "subscriptionDataSet": [
                {
                    "classFilterMode": False,
                    "codeSet": [b"B"[0]] if expression == "B" else [],
                    "expressionType": kind,
                    "subString": expression,
                    "subVersion": 5,
                    "tagsSet": ["B"] if expression == "B" else [],
                    "topic": "plain",
                }
            ],
            "unitMode": False,
        }
        for group, expression, kind, model in _GROUPS
    ]
    beat = {"clientID": "client", "consumerDataSet": consumers, "producerDataSet": []}
    updates = [request(200, {}, json.dumps(group).encode()) for group in groups]
    return b"".join([*updates, request(34, {}, json.dumps(beat).encode())])


# -- all ---------------------------------------------------------------------------------------------------------------------------


def _of_java() -> Iterator[tuple[str, Reads]]:
    """What clients of Apache RocketMQ sent, as it was captured: first what stores messages, so that there is something to pull."""
    for code in (10, 310, 320):
        for found in frames(code=code, kind="request"):
            yield f"Java: {found.file}", [found.data + found.data]
    for found in frames(code=11, kind="request"):
        stores = [frame.data for frame in frames(version=found.version, code=310, kind="request", serialize="JSON")]
        yield f"Java: {found.file}", [b"".join(stores), found.data, found.data]


def all_scenes() -> Iterator[tuple[str, str, Reads]]:
    """Each scene: its name, the client's host, and what the broker reads."""
    for scenes in (_sends(), _batches(), _pulls(), _of_java()):
        for name, reads in scenes:
            yield name, "127.0.0.1", reads
    body = b"".join([alike(number) for number in range(20)])
    batch = send(body, code=320, i="UNIQ_KEY\x01K\x02WAIT\x01true\x02", m="true")
    for host in ("::1", "fe80::1%eth0", "::ffff:10.0.0.7"):
        data = send() + batch + send(i=PROPERTIES.replace("0001", "7777")) + batch
        yield f"a client of {host}", host, [data]
