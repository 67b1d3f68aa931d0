# SPDX-License-Identifier: Apache-2.0
"""The forms in which official clients send, and what a broker makes of each: its answer, the records it stores, the records it delivers.

The requests are those that Java clients of both generations wrote (golden frames), to the byte where nothing in them belongs to one broker,
so that each broker can be asked the same. What is compared is read with a reader of its own, not with the code under test; ports, the
broker's times and places in its log are taken out.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from golden import GoldenFrame, frames
from interop.child import HANG_S, poll_until
from interop.raw_member import RawMember
from interop.remoting import Asking, decode_header, request_frame, split_frame

PULL_MESSAGE, GET_MAX_OFFSET, VIEW_MESSAGE_BY_ID, SEND_BACK, END_TRANSACTION, REPLIES = 11, 30, 33, 36, 37, (324, 325)
PUSH_REPLY: Final = 326
SENDS: Final = (10, 310, 320)
ONE_WAY: Final = 2
RETRY_TOPIC: Final = "%RETRY%interop-probe"


class Form(NamedTuple):
    """A request as a client sends it. ``later``: what its consumers get comes from elsewhere, after a while."""

    name: str
    version: str
    serialize: str
    data: bytes
    code: int
    later: str = ""

    @property
    def header(self) -> dict[str, Any]:
        kind, header, _ = split_frame(self.data)
        return decode_header(kind, header)

    @property
    def is_one_way(self) -> bool:
        return bool(self.header["flag"] & ONE_WAY)


class Record(NamedTuple):
    """One stored message, without what differs between brokers. ``properties`` are sorted: Java's order is that of a HashMap."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_ip: str
    store_ip: str
    reconsume_times: int
    is_of_transaction: bool
    body: bytes
    properties: tuple[tuple[str, str], ...]
    ends_in_separator: bool
    as_it_came: bytes | None  # the text of the properties, of a batch's message: its bytes are the sender's


class Outcome(NamedTuple):
    """What became of one request. ``stored`` is what the answer's msgId names, ``delivered`` what consumers get."""

    answer: dict[str, Any]
    stored: tuple[Record, ...]
    delivered: tuple[Record, ...]


class _Found(NamedTuple):
    record: Record
    queue_offset: int
    physical_offset: int
    raw_properties: bytes
    store_host: bytes


# -- the forms ---------------------------------------------------------------------------------------------------------------------


def _forms() -> Iterator[Form]:
    seen: set[str] = set()
    for frame in frames(kind="request", sender="client"):
        if frame.code not in (*SENDS, *REPLIES) or frame.link != "client-broker":
            continue
        kind, raw, body = split_frame(frame.data)
        header = decode_header(kind, raw)
        name = f"{frame.version} {frame.serialize} {_words(frame)}"
        while name in seen:
            name += " again"
        seen.add(name)
        later = _later(header)
        yield Form(name, frame.version, frame.serialize, frame.data, frame.code, later)
        if frame.code == 320 and not header["flag"] & ONE_WAY:
            one_way = header_frame(kind, {**header, "flag": header["flag"] | ONE_WAY}, body)
            yield Form(f"{name} one-way", frame.version, frame.serialize, one_way, frame.code)
        if frame.code == 325:
            old = {**header, "code": 324, "extFields": {_V1[key]: value for key, value in header["extFields"].items()}}
            yield Form(f"{name} V1", frame.version, frame.serialize, header_frame(kind, old, body), 324, later)
        if frame.shows == "SEND_MESSAGE_V2 request with body sysFlag 0":
            forwarded = header_frame(kind, _forwarded(header), body)
            yield Form(f"{name} forwarded", frame.version, frame.serialize, forwarded, frame.code)


# SendMessageRequestHeaderV2's names, and the names of before (both of them Java's).
_V1: Final = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "bname",
}


def _forwarded(header: dict[str, Any]) -> dict[str, Any]:
    """With the marks of the broker that it was consumed from: a Java consumer sends so when its send-back fails (to a retry topic), and so
    do programs that hand the properties on."""
    text = re.sub(r"(UNIQ_KEY\x01\w+)\w", r"\1F", header["extFields"]["i"]).rstrip("\x02")
    text = f"CLUSTER\x01far\x02TRACE_ON\x01false\x02{text}\x02MSG_REGION\x01elsewhere\x02"
    return {**header, "extFields": {**header["extFields"], "i": text}}


def _words(frame: GoldenFrame) -> str:
    shows = frame.shows.replace("SEND_BATCH_MESSAGE", "batch").replace("SEND_REPLY_MESSAGE_V2", "reply")
    shows = shows.replace("SEND_MESSAGE_V2", "V2").replace("SEND_MESSAGE", "V1")
    return re.sub(r" (request|with body|sysFlag 0)\b", "", shows).replace("\x01", "=")


def _later(header: dict[str, Any]) -> str:
    properties = _properties(header)
    for name, later in (("DELAY", "delay"), ("TIMER_DELIVER_MS", "timer"), ("TRAN_MSG", "half")):
        if name in properties:
            return later
    return "reply" if header["code"] in REPLIES else ""


def _properties(header: dict[str, Any]) -> dict[str, str]:
    ext = header["extFields"]
    text = ext.get("i") or ext.get("properties") or ""
    return dict(pair.split("\x01", 1) for pair in text.split("\x02") if pair)


def header_frame(kind: int, header: dict[str, Any], body: bytes) -> bytes:
    """A frame with this header, written in the type that ``kind`` names (0 JSON, 1 ROCKETMQ)."""
    if kind == 0:
        raw = json.dumps(header, separators=(",", ":")).encode()
    else:
        ext = b"".join(
            struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value
            for name, value in ((name.encode(), value.encode()) for name, value in header["extFields"].items())
        )
        head = (header["code"], header["language"], header["version"], header["opaque"], header["flag"])
        raw = struct.pack(">hbhii", *head) + struct.pack(">ii", 0, len(ext)) + ext
    return struct.pack(">iI", 4 + len(raw) + len(body), kind << 24 | len(raw)) + raw + body


def _queue(form: Form) -> tuple[str, int]:
    ext = form.header["extFields"]
    return ext.get("b") or ext["topic"], int(ext.get("e") or ext["queueId"])


FORMS: Final = tuple(_forms())
TOPICS: Final = tuple(sorted({_queue(form)[0] for form in FORMS if form.code in SENDS}))  # with four queues each


# -- one broker --------------------------------------------------------------------------------------------------------------------


def look(address: str, *, context: ssl.SSLContext | None = None, forms: tuple[Form, ...] = FORMS) -> dict[str, Outcome]:
    """Send each form to the broker at ``address`` (its topics are there), and say what became of it."""
    with Asking(address, HANG_S, context=context) as line, _Requesters(address) as requesters:
        return dict(_Broker(line, requesters).play(forms))


class _Requesters:
    """Who waits for replies: one connection for each client id, open until all forms are sent.

    Apache forgets a client id when a connection of it closes, though another one has announced itself since
    (ProducerManager.doChannelCloseEvent), and then pushes nothing.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._open = contextlib.ExitStack()
        self._members: dict[str, RawMember] = {}

    def get(self, client_id: str) -> RawMember:
        if client_id not in self._members:
            member = RawMember(self._address, {PUSH_REPLY: b""})
            self._members[client_id] = self._open.enter_context(member)
            member.heartbeat(client_id, producer="interop-producers")
        return self._members[client_id]

    def __enter__(self) -> _Requesters:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


class _Broker:
    def __init__(self, line: Asking, requesters: _Requesters) -> None:
        self._line, self._requesters = line, requesters
        self._next: dict[tuple[str, int], int] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        self._stored: dict[str, tuple[_Found, ...]] = {}

    def play(self, forms: tuple[Form, ...]) -> Iterator[tuple[str, Outcome]]:
        for queue in {*(_queue(form) for form in forms if form.code in SENDS), (RETRY_TOPIC, 0)}:
            self._next[queue] = self._max_offset(*queue)
        delivered: dict[str, list[_Found]] = {}
        for form in forms:
            if form.later == "reply":
                yield form.name, self._reply(form)
            elif not form.later:
                delivered[form.name] = self._send(form)
        later = [form for form in forms if form.later not in ("", "reply")]
        keys = {}
        for form in later:
            self._send_later(form)
            keys[_properties(form.header)["UNIQ_KEY"]] = form.name
        backs = [form for form in forms if not form.later and form.code != 320 and not form.is_one_way]
        for form in backs:
            self._send_back(form, delivered[form.name][0])
            keys[_properties(form.header)["UNIQ_KEY"] + " again"] = f"{form.name} sent back"
        came = self._collect(keys)
        for form in (*forms, *(form._replace(name=f"{form.name} sent back") for form in backs)):
            if form.later != "reply":
                found = came.get(form.name) or delivered.get(form.name) or []
                stored = tuple(one.record for one in self._stored.get(form.name, ()))
                yield form.name, Outcome(self._answers.get(form.name, {}), stored, tuple(one.record for one in found))

    # -- sending

    def _send(self, form: Form) -> list[_Found]:
        queue = _queue(form)
        base, count = self._next[queue], _count(form)
        if form.is_one_way:
            self._line.tell(form.data)
        else:
            self._take_answer(form, form.data, base)
        found: list[_Found] = []

        def has_all() -> bool:
            found[:] = self._pull(*queue, base, form.code == 320)
            return len(found) >= count

        poll_until(has_all, f"{count} messages of {form.name!r} are in {queue}", pause_s=0.01)
        assert [one.queue_offset for one in found] == list(range(base, base + count)), form.name
        self._next[queue] = base + count
        return found

    def _send_later(self, form: Form) -> None:
        kind, raw, body = split_frame(form.data)
        header = decode_header(kind, raw)
        data = form.data
        if form.later == "timer":
            moment = str(int(time.time() * 1000) + 1500)
            ext = {
                name: re.sub(r"(?<=TIMER_DELIVER_MS\x01)\d+", moment, value)
                for name, value in header["extFields"].items()
            }
            data = header_frame(kind, {**header, "extFields": ext}, body)
        answer = self._take_answer(form, data, None)
        if form.later == "half":
            end = next(
                end
                for end in frames(code=END_TRANSACTION, version=form.version, serialize=form.serialize, kind="request")
                if "commitOrRollback 8 fromTransactionCheck false" in end.shows
            )
            kind, raw, _ = split_frame(end.data)
            header = decode_header(kind, raw)
            key = _properties(form.header)["UNIQ_KEY"]
            place = {
                "commitLogOffset": str(int(answer["msgId"][-16:], 16)),
                "tranStateTableOffset": answer["queueOffset"],
            }
            ext = {**header["extFields"], **place, "msgId": key, "transactionId": key}
            self._line.tell(header_frame(kind, {**header, "extFields": ext}, b""))

    def _send_back(self, form: Form, found: _Found) -> None:
        back = frames(code=SEND_BACK, version=form.version, serialize=form.serialize, kind="request")[0]
        kind, raw, _ = split_frame(back.data)
        header = decode_header(kind, raw)
        ext = {**header["extFields"], "group": RETRY_TOPIC[7:], "offset": str(found.physical_offset)}
        ext["originTopic"] = found.record.topic
        _, answer, _ = self._line.exchange(header_frame(kind, {**header, "extFields": ext}, b""))
        self._answers[f"{form.name} sent back"] = _answer_fields(kind, answer)

    def _reply(self, form: Form) -> Outcome:
        """The answer, and instead of a record what the requester is given."""
        client_id = _properties(form.header)["REPLY_TO_CLIENT"]
        requester = self._requesters.get(client_id)
        kind, answer, _ = self._line.exchange(form.data)
        pushed = requester.asked.get(timeout=HANG_S)
        fields = {**_answer_fields(kind, answer), "msgId": "GIVEN", "queueOffset": "GIVEN"}
        ext = {name: _masked(name, value) for name, value in pushed.header["extFields"].items()}
        text = ext.pop("properties")
        ext["properties"] = str(sorted(_masked_pair(pair) for pair in text.split("\x02") if pair))
        push = {"code": pushed.code, "flag": pushed.header["flag"], "body": pushed.body, **ext}
        return Outcome({**fields, **{f"push {name}": value for name, value in push.items()}}, (), ())

    def _take_answer(self, form: Form, data: bytes, base: int | None) -> dict[str, str]:
        kind, answer, _ = self._line.exchange(data)
        fields = _answer_fields(kind, answer)
        ext = answer["extFields"]
        if ids := ext.get("msgId"):
            self._stored[form.name] = tuple(self._view(form, one) for one in ids.split(","))
            assert [_id_of(one) for one in self._stored[form.name]] == ids.split(","), form.name
            fields["msgId"] = f"{len(ids.split(','))} ids"
            if base is not None:
                fields["queueOffset"] = str(int(ext["queueOffset"]) - base)
            else:
                fields["queueOffset"] = "GIVEN"
        self._answers[form.name] = fields
        return dict(ext)

    # -- reading

    def _view(self, form: Form, message_id: str) -> _Found:
        fields = {"offset": str(int(message_id[-16:], 16))}
        _, answer, body = self._line.exchange(request_frame(VIEW_MESSAGE_BY_ID, fields))
        assert answer["code"] == 0, answer
        return next(_records(body, form.code == 320))

    def _max_offset(self, topic: str, queue_id: int) -> int:
        _, answer, _ = self._line.exchange(request_frame(GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)}))
        return int((answer.get("extFields") or {}).get("offset", 0))

    def _pull(self, topic: str, queue_id: int, offset: int, of_batch: bool = False) -> list[_Found]:
        fields = {"consumerGroup": "sent-forms", "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset)}
        fields.update(
            maxMsgNums="32", sysFlag="4", commitOffset="0", suspendTimeoutMillis="0", subscription="*", subVersion="0"
        )
        _, answer, body = self._line.exchange(request_frame(PULL_MESSAGE, {**fields, "expressionType": "TAG"}))
        return list(_records(body, of_batch)) if answer["code"] == 0 else []

    def _collect(self, keys: dict[str, str]) -> dict[str, list[_Found]]:
        """What came of the delayed, the timed, the committed and the sent back, in whatever order it came."""
        found: dict[str, list[_Found]] = {}

        def has_all() -> bool:
            for queue in self._next:
                for one in self._pull(*queue, self._next[queue]):
                    self._next[queue] = one.queue_offset + 1
                    key = dict(one.record.properties).get("UNIQ_KEY", "")
                    name = keys.get(key + (" again" if one.record.topic == RETRY_TOPIC else ""))
                    if name is not None:  # a group's late retries of another test
                        found.setdefault(name, []).append(one)
            return len(found) == len(keys)

        try:
            poll_until(has_all, "all that is delivered later has come", pause_s=0.05)
        except TimeoutError as error:
            raise TimeoutError(f"never came: {sorted(set(keys.values()) - found.keys())}") from error
        return found


# -- reading records and answers -----------------------------------------------------------------------------------------------------

_TIMES: Final = (
    "TIMER_OUT_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_DELIVER_MS",
    "PUSH_REPLY_TIME",
    "ARRIVE_TIME",
)
_PLACES: Final = ("ORIGIN_MESSAGE_ID", "bornHost", "storeHost", "storeTimestamp")


def _masked(name: str, value: str) -> str:
    return "GIVEN" if name in _TIMES or name in _PLACES else value


def _masked_pair(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("\x01")
    return name, _masked(name, value)


def _answer_fields(kind: int, answer: dict[str, Any]) -> dict[str, Any]:
    ext = {name: _masked(name, value) for name, value in (answer.get("extFields") or {}).items() if value}
    if "recallHandle" in ext:
        ext["recallHandle"] = "GIVEN"
    return {"type": kind, "code": answer["code"], "flag": answer["flag"], "remark": bool(answer.get("remark")), **ext}


def _count(form: Form) -> int:
    if form.code != 320:
        return 1
    _, _, body = split_frame(form.data)
    at = count = 0
    while at < len(body):
        at += struct.unpack_from(">i", body, at)[0]
        count += 1
    return count


def _records(data: bytes, of_batch: bool) -> Iterator[_Found]:
    at = 0
    while at < len(data):
        found = _read_record(data, at, of_batch)
        at += struct.unpack_from(">i", data, at)[0]
        yield found


def _read_record(data: bytes, start: int, of_batch: bool) -> _Found:
    """As Java's MessageDecoder reads it."""
    size, _, _, queue_id, flag, offset, place, sys_flag, born_ms = struct.unpack_from(">iIiiiqqiq", data, start)
    born_ip, at = _host(data, start + 48, sys_flag & 0x10)
    host_at = at + 8
    store_ip, at = _host(data, host_at, sys_flag & 0x20)
    store_host = data[host_at:at]
    # A delivered copy of ours names the message that waited by a negative number (docs/decisions/0015).
    times, prepared, body_size = struct.unpack_from(">iqi", data, at)
    at += 16
    body = data[at : at + body_size]
    at += body_size
    topic = data[at + 1 : at + 1 + data[at]].decode()
    raw = data[at + 3 + data[at] : start + size]
    pairs = tuple(sorted(_masked_pair(pair) for pair in raw.decode().split("\x02") if pair))
    record = Record(
        *(topic, queue_id, flag, sys_flag, born_ms, born_ip, store_ip, times, prepared > 0, body, pairs),
        *(raw[-1:] == b"\x02", raw if of_batch else None),
    )
    return _Found(record, offset, place, raw, store_host)


def _host(data: bytes, at: int, is_v6: int) -> tuple[str, int]:
    family, size = (socket.AF_INET6, 16) if is_v6 else (socket.AF_INET, 4)
    return socket.inet_ntop(family, data[at : at + size]), at + size + 4


def _id_of(found: _Found) -> str:
    return (found.store_host + struct.pack(">q", found.physical_offset)).hex().upper()


# -- comparing ----------------------------------------------------------------------------------------------------------------------


def differences(theirs: Outcome, ours: Outcome) -> list[str]:
    """Each thing that is not the same, theirs first."""
    found = [
        f"answer {name}: {theirs.answer.get(name)!r}, ours {ours.answer.get(name)!r}"
        for name in sorted(theirs.answer.keys() | ours.answer.keys())
        if theirs.answer.get(name) != ours.answer.get(name)
    ]
    for what in ("stored", "delivered"):
        mine, other = getattr(ours, what), getattr(theirs, what)
        if len(mine) != len(other):
            found.append(f"{what}: {len(other)} records, ours {len(mine)}")
        for number, (one, another) in enumerate(zip(other, mine, strict=False)):
            for name in Record._fields:
                if name == "properties":
                    found += [
                        f"{what} {number}: {pair}, not ours"
                        for pair in one.properties
                        if pair not in another.properties
                    ]
                    found += [
                        f"{what} {number}: only ours {pair}"
                        for pair in another.properties
                        if pair not in one.properties
                    ]
                    if len(one.properties) != len(another.properties):
                        found.append(
                            f"{what} {number}: {len(one.properties)} properties, ours {len(another.properties)}"
                        )
                elif getattr(one, name) != getattr(another, name):
                    found.append(f"{what} {number} {name}: {getattr(one, name)!r}, ours {getattr(another, name)!r}")
    return found
