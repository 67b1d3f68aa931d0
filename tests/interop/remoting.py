# SPDX-License-Identifier: Apache-2.0
"""Just enough of the remoting protocol to look at a server from outside, without the code under test: one request, one answer."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import ssl
import struct
from typing import Any, NamedTuple

GET_ROUTEINFO_BY_TOPIC = 105
UPDATE_AND_CREATE_TOPIC = 17
SEND_MESSAGE_V2 = 310


class Answer(NamedTuple):
    """A response: its header as a dictionary, its body as it came."""

    header: dict[str, Any]
    body: bytes

    @property
    def code(self) -> int:
        return int(self.header["code"])


class Keys(NamedTuple):
    """Of an account: requests are signed with them."""

    access: str
    secret: str

    def sign(self, ext: dict[str, str], body: bytes) -> dict[str, str]:
        """The fields, AccessKey and Signature added as AclClientRPCHook does."""
        signed = {**ext, "AccessKey": self.access}
        content = "".join(signed[name] for name in sorted(signed)).encode() + body
        signed["Signature"] = base64.b64encode(hmac.digest(self.secret.encode(), content, "sha1")).decode()
        return signed


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
    address: str,
    code: int,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
    timeout_s: float = 30.0,
    *,
    keys: Keys | None = None,
    tls: bool = False,
) -> Answer:
    """Send one request to `host:port` on a connection of its own and return the answer; with `tls` any certificate will do.

    Raises:
        OSError: nobody listens, or the answer did not come in time.
    """
    ext = ext or {}
    with Asking(address, timeout_s, context=trusting_anybody() if tls else None) as connection:
        return connection.ask(code, keys.sign(ext, body) if keys else ext, body)


class Asking:
    """A connection for several requests, one after the other; raises as `ask`. What a server asks of its client, and an answer that comes
    too late for an earlier request, are dropped.

    Args:
        version: an ordinal of MQVersion, which brokers take for the client's.
    """

    def __init__(
        self, address: str, timeout_s: float = 30.0, *, context: ssl.SSLContext | None = None, version: int = 409
    ) -> None:
        self._address, self._version, self._opaque = address, version, 0
        host, port = address.rsplit(":", 1)
        self._connection = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        if context is not None:
            self._connection = context.wrap_socket(self._connection)
        self._connection.settimeout(timeout_s)

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Answer:
        self._opaque += 1
        _, header, answer = self.exchange(request_frame(code, ext or {}, body, self._opaque, self._version))
        return Answer(header, answer)

    def exchange(self, frame: bytes) -> tuple[int, dict[str, Any], bytes]:
        """Serialize type, header and body of the answer to a request."""
        self.tell(frame)
        opaque = decode_header(*split_frame(frame)[:2])["opaque"]
        while True:
            length = self._exactly(4)
            kind, raw, body = split_frame(length + self._exactly(int.from_bytes(length, "big")))
            header = decode_header(kind, raw)
            if header["flag"] & 1 and header["opaque"] == opaque:
                return kind, header, body

    def tell(self, frame: bytes) -> None:
        self._connection.sendall(frame)

    def close(self) -> None:
        self._connection.close()

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            piece = self._connection.recv(size - len(found))
            if not piece:
                raise ConnectionError(f"{self._address} closed the connection instead of answering")
            found += piece
        return bytes(found)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()


def trusting_anybody() -> ssl.SSLContext:
    """TLS with any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def create_topic(
    broker_addr: str, topic: str, queues: int = 8, ext: dict[str, str] | None = None, keys: Keys | None = None
) -> None:
    """UPDATE_AND_CREATE_TOPIC with `queues` queues to read and to write; `ext` overrides single header fields.

    Raises:
        RuntimeError: the broker refused.
    """
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues)}
    fields.update(perm="6", topicFilterType="SINGLE_TAG", topicSysFlag="0", order="false")
    fields.update(ext or {})
    answer = ask(broker_addr, UPDATE_AND_CREATE_TOPIC, fields, keys=keys)
    if answer.code:
        raise RuntimeError(f"the broker refused topic {topic}: {answer.code} {answer.header.get('remark')}")


def has_route(namesrv_addr: str, topic: str, *, keys: Keys | None = None, tls: bool = False) -> bool:
    """Whether the name server knows the topic; False as well while nobody listens there."""
    try:
        return ask(namesrv_addr, GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_s=3.0, keys=keys, tls=tls).code == 0
    except OSError:
        return False


def can_send(address: str, topic: str, broker_name: str, *, keys: Keys | None = None, tls: bool = False) -> bool:
    """Send a message to queue 0 of the topic at a broker, or through a proxy to that broker; False when it was not stored."""
    # SendMessageRequestHeaderV2: group, topic, default topic and its queues, queue, flags, properties, retries, broker.
    ext = dict(zip("abcdefghijkmn", ("ready", topic, "TBW102", *"40010", "", "0", "false", "false", broker_name), strict=True))  # fmt: skip
    try:
        return ask(address, SEND_MESSAGE_V2, ext, b"ready?", 3.0, keys=keys, tls=tls).code == 0
    except OSError:
        return False
