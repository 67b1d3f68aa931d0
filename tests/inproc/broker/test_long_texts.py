# SPDX-License-Identifier: Apache-2.0
"""Each text of each request as long as a frame may have it: the loop takes few lines of Python for it, because what is longer than any
name is refused before it is looked at, and what is looked at is looked at by bytes. `make loop-share` measures times."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sprocketmq
from interop.hostile_requests import templates
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.headers import SendMessageRequestHeaderV2
from sprocketmq.wire.records.batch import join_elements
from sprocketmq.wire.records.record import decode_records

HEADER_LETTERS = 200_000  # the fields of a header have 256 KiB
BODY_LETTERS = 900_000  # a JSON body has 1 MiB
FILL = {"one word": "k", "words": "k ", "separators": "a\x01b\x02", "lists": "1,a;", "not ASCII": "ß", "filters": "a||"}
MOST_LINES = 20_000  # of one turn; a line takes 50 to 100 ns
LAST = {25, 318, 30001, 316, 306, 329}  # they change settings or clean up
PACKAGE = str(Path(sprocketmq.__file__).parent)


class Lines:
    """Counts the lines of this package that run on a loop; ``most``: in one turn of it, with the function that had most of them."""

    def __init__(self) -> None:
        self.most, self.of = 0, ""
        self._counted: Counter[str] = Counter()

    def start(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)
        sys.settrace(self._call)

    def stop(self) -> None:
        sys.settrace(None)
        self._note()

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self._counted[frame.f_code.co_qualname] += 1
        return self._line

    def _note(self) -> None:
        if (count := self._counted.total()) > self.most:
            self.most, self.of = count, self._counted.most_common(1)[0][0]
        self._counted.clear()

    def _turn(self) -> None:
        if sys.gettrace() is not None:
            self._note()
            asyncio.get_running_loop().call_soon(self._turn)


def most_lines(cluster: Any, ask: Any) -> str | None:
    """What took too many lines while ``ask`` was answered."""
    lines = Lines()
    cluster.on_loop(lines.start)
    try:
        ask()
    finally:
        cluster.on_loop(lambda: None)
        cluster.on_loop(lines.stop)
    return f"{lines.most} lines, most of them in {lines.of}" if lines.most > MOST_LINES else None


def _texts_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _texts_in(part, (*path, key))
    elif isinstance(value, list):
        yield from _texts_in(value[0], (*path, 0)) if value else ()
    elif isinstance(value, str):
        yield path


def _with(body: bytes, path: tuple[Any, ...], text: str) -> bytes:
    whole = json.loads(body)
    part = whole
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = text
    return json.dumps(whole, ensure_ascii=False).encode()


def _filled(fill: str, bytes_: int) -> str:
    return fill * (bytes_ // len(fill.encode()))


@pytest.mark.parametrize(
    "fill",
    [
        "one word",
        "lists",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in FILL if name not in ("one word", "lists")),
    ],
)
def test_each_text_of_each_request_may_be_as_long_as_a_frame_allows(cluster, client, fill):
    names, found, seen = cluster.namesrv_client(), [], set()
    for asked in sorted(templates(), key=lambda one: one.code in LAST):
        peer = client if asked.to == "broker" else names
        body = asked.body if asked.body.startswith((b"{", b"[")) else b"{}"
        texts = [(field,) for field in asked.fields] + list(_texts_in(json.loads(body)))
        for path in texts:
            if (asked.to, asked.code, path) in seen:
                continue
            seen.add((asked.to, asked.code, path))
            fields, sent = dict(asked.fields), asked.body
            if path[0] in fields and len(path) == 1:
                fields[path[0]] = _filled(FILL[fill], HEADER_LETTERS)
            else:
                sent = _with(asked.body, path, _filled(FILL[fill], BODY_LETTERS))

            def ask(peer: Any = peer, code: int = asked.code, fields: Any = fields, sent: bytes = sent) -> None:
                peer.ask(code, None, sent, ext_fields=fields)

            try:
                problem = most_lines(cluster, ask)
            except Exception as error:  # noqa: BLE001 - an answer that is too long closes the connection
                problem = None if "closed" in str(error) or "broke" in str(error) else repr(error)
            if problem:
                found.append(f"{asked.to} {asked.code} {path}: {problem}")
    assert len(seen) > 300
    assert found == []


LONG_PROPERTIES = {
    "tags": lambda number: "TAGS\x01" + f"{number:05}".ljust(32_600, "t"),
    "tags that are not ASCII": lambda number: "TAGS\x01" + f"{number:05}".ljust(16_300, "ß"),
    "5,000 properties": lambda number: "".join(f"k{key}\x01v\x02" for key in range(3_400)),
    "5,000 keys": lambda number: "KEYS\x01" + " ".join(f"{key}" for key in range(5_500)),
    "separators": lambda number: "\x02" * 32_600,
    "half properties": lambda number: "a\x01" * 16_000,
    "TAGS again and again": lambda number: "TAGS\x01a\x02" * 4_600,
}


@pytest.mark.parametrize("kind", LONG_PROPERTIES)
def test_long_properties_are_looked_at_by_bytes(cluster, client, kind):
    make = LONG_PROPERTIES[kind]
    client.send("flights")

    def ask() -> None:
        for number in range(3):
            header = SendMessageRequestHeaderV2("g", "flights", "TBW102", 4, 0, 0, 1, 0, make(number))
            assert client.ask(310, header, b"x").code == 0
        elements = join_elements([0] * 120, [b"x"] * 120, [make(number).encode() for number in range(120)])
        assert client.send_batch(elements).code == 0

    assert most_lines(cluster, ask) is None


@pytest.mark.parametrize("letter", ["k", "ß"])
def test_a_key_that_no_message_can_have_is_not_looked_for(cluster, client, letter):
    client.send("flights", properties={"KEYS": letter * 10_000})

    def query(key: str) -> Any:
        return client.do(requests.messages.QUERY_MESSAGE, "flights", key, 32, 0, 1 << 61)

    assert query(letter * 10_000).code == 0, "the longest keys are found"
    answer = query(letter * 100_000)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert "100000 characters" in answer.remark
    assert len(answer.remark) < 500, "the answer does not repeat the key"
    assert len(query(letter * 20_000).remark) < 500


def test_a_query_indexes_what_is_behind_a_share_in_each_turn(cluster, client, monkeypatch):
    """Each message has as many keys as 1,400 ordinary ones."""
    cluster.on_loop(lambda: monkeypatch.setattr(cluster.broker.index_building, "_index_some", lambda: 0.1))
    keys = " ".join(map(str, range(5_500)))
    for _ in range(5):
        client.send("flights", properties={"KEYS": keys})
    turn, dispatched, dispatch = [0], [], cluster.broker.store.dispatch

    def counted(max_records: int) -> int:
        done: int = dispatch(max_records)
        dispatched.append((turn[0], done))
        return done

    def count_turns() -> None:
        turn[0] += 1
        if len(dispatched) < 50:
            asyncio.get_running_loop().call_soon(count_turns)

    monkeypatch.setattr(cluster.broker.store, "dispatch", counted)
    cluster.on_loop(count_turns)
    answer = client.do(requests.messages.QUERY_MESSAGE, "flights", "77", 32, 0, 1 << 61)
    dispatched += [(-1, 0)] * 50
    assert answer.code == 0
    assert len(decode_records(answer.body)) == 5
    turns = [turn for turn, done in dispatched if done]
    assert len(turns) == 5
    assert len(set(turns)) == 5
