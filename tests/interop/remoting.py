# SPDX-License-Identifier: Apache-2.0
"""Just enough of the remoting protocol to look at a server from outside, without the code under test: one request, one answer."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, NamedTuple

__all__ = ["Answer", "Asking", "ask", "create_topic", "decode_header", "has_route", "request_frame", "split_frame"]

GET_ROUTEINFO_BY_TOPIC = 105
UPDATE_AND_CREATE_TOPIC = 17


class Answer(NamedTuple):
    """A response: its header as a dictionary, its body as it came."""

    header: dict[str, Any]
    body: bytes

    @property
    def code(self) -> int:
        return int(self.header["code"])


def request_frame(code: int, ext: dict[str, str], body: bytes = b"", opaque: int = 1, version: int = 409) -> bytes:
    """A request with a JSON header, as a Java client would write it; `version` is an ordinal of MQVersion, 409 is 4.9.8."""
    fields = {"code": code, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": opaque}
    fields.update(serializeTypeCurrentRPC="JSON", version=version)
    header = json.dumps(fields).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def split_frame(frame: bytes) -> tuple[int, bytes, bytes]:
    """(serialize type, header, body) of a whole frame with its four length bytes."""
    _, mark = struct.unpack_from(">iI", frame)
    end = 8 + (mark & 0xFFFFFF)
    return mark >> 24, frame[8:end], frame[end:]


def decode_header(kind: int, header: bytes) -> dict[str, Any]:
    """A header of either type (0 JSON, 1 ROCKETMQ) as a dictionary with Java's field names."""
    if kind == 0:
        found = json.loads(header)
        assert isinstance(found, dict)
        return found
    code, language, version, opaque, flag, remark_length = struct.unpack_from(">hbhiii", header)
    at = 17 + remark_length
    fields: dict[str, Any] = {"code": code, "language": language, "version": version, "opaque": opaque, "flag": flag}
    fields["remark"] = header[17:at].decode() or None
    end = at + 4 + struct.unpack_from(">i", header, at)[0]
    at += 4
    ext: dict[str, str] = {}
    while at < end:
        (key_length,) = struct.unpack_from(">h", header, at)
        (value_length,) = struct.unpack_from(">i", header, at + 2 + key_length)
        value_at = at + 6 + key_length
        ext[header[at + 2 : at + 2 + key_length].decode()] = header[value_at : value_at + value_length].decode()
        at = value_at + value_length
    return {**fields, "extFields": ext}


def ask(
    address: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"", timeout_s: float = 30.0
) -> Answer:
    """Send one request to `host:port` on a connection of its own and return the answer.

    Raises:
        OSError: nobody listens, or the answer did not come in time.
    """
    with Asking(address, timeout_s) as connection:
        return connection.ask(code, ext, body)


class Asking:
    """A connection for several requests, one after the other; raises as `ask`."""

    def __init__(self, address: str, timeout_s: float = 30.0) -> None:
        self._address = address
        host, port = address.rsplit(":", 1)
        self._connection = socket.create_connection((host, int(port)), timeout_s)
        self._connection.settimeout(timeout_s)
        self._stream = self._connection.makefile("rb")

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Answer:
        self._connection.sendall(request_frame(code, ext or {}, body))
        length = self._stream.read(4)
        if len(length) < 4:
            raise ConnectionError(f"{self._address} closed the connection instead of answering request {code}")
        kind, header, answer = split_frame(length + self._stream.read(int.from_bytes(length, "big")))
        return Answer(decode_header(kind, header), answer)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *args: object) -> None:
        self._stream.close()
        self._connection.close()


def create_topic(broker_addr: str, topic: str, queues: int = 8, ext: dict[str, str] | None = None) -> None:
    """UPDATE_AND_CREATE_TOPIC with `queues` queues to read and to write; `ext` overrides single header fields.

    Raises:
        RuntimeError: the broker refused.
    """
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues)}
    fields.update(perm="6", topicFilterType="SINGLE_TAG", topicSysFlag="0", order="false")
    fields.update(ext or {})
    answer = ask(broker_addr, UPDATE_AND_CREATE_TOPIC, fields)
    if answer.code:
        raise RuntimeError(f"the broker refused topic {topic}: {answer.code} {answer.header.get('remark')}")


def has_route(namesrv_addr: str, topic: str) -> bool:
    """Whether the name server knows the topic; False as well while nobody listens there."""
    try:
        return ask(namesrv_addr, GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_s=3.0).code == 0
    except OSError:
        return False
