# SPDX-License-Identifier: Apache-2.0
"""A member of a consumer group in raw frames: sends heartbeats, keeps what the broker asks of it, and answers as it was told.

It speaks the protocol without the code under test, so the same member can stand before an Apache broker and before ours.
"""

from __future__ import annotations

import json
import queue
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any

from interop.remoting import Answer, decode_header, request_frame, split_frame

HEART_BEAT = 34


class RawMember:
    """One connection to a broker that asks and is asked. Use with ``with``.

    Args:
        address: the broker's ``host:port``.
        replies: what requests are answered with, by their codes; every request is kept in ``asked``.
    """

    def __init__(self, address: str, replies: Mapping[int, bytes] | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 10)
        self._socket.settimeout(None)  # the reader waits for whatever comes, however long that takes
        self._replies = replies or {}
        self._answers: queue.Queue[Answer] = queue.Queue()
        self.asked: queue.Queue[Answer] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", timeout_s: float = 30.0) -> Answer:
        """Send one request, wait for its answer; one at a time."""
        self._socket.sendall(request_frame(code, ext or {}, body))
        return self._answers.get(timeout=timeout_s)

    def heartbeat(
        self, client_id: str, *, group: str | None = None, topics: tuple[str, ...] = (), producer: str | None = None
    ) -> Answer:
        """Join a consumer group that subscribes to all of ``topics``, or a producer group, or both."""
        subscriptions = [
            {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG", "tagsSet": [], "codeSet": []}
            | {"classFilterMode": False}
            for topic in topics
        ]
        consumer: dict[str, Any] = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "unitMode": False,
        }
        consumer.update(consumeFromWhere="CONSUME_FROM_FIRST_OFFSET", subscriptionDataSet=subscriptions)
        data: dict[str, Any] = {"clientID": client_id, "consumerDataSet": [consumer] if group else []}
        data["producerDataSet"] = [{"groupName": producer}] if producer else []
        return self.ask(HEART_BEAT, {}, json.dumps(data).encode())

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._socket.close()

    def __enter__(self) -> RawMember:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as stream:
                while len(length := stream.read(4)) == 4:
                    kind, raw, body = split_frame(length + stream.read(int.from_bytes(length, "big")))
                    self._take(Answer(decode_header(kind, raw), body))
        except OSError:
            return

    def _take(self, frame: Answer) -> None:
        if frame.header["flag"] & 1:
            self._answers.put(frame)
            return
        self.asked.put(frame)
        body = self._replies.get(frame.code)
        if body is not None and not frame.header["flag"] & 2:
            header = {"code": 0, "flag": 1, "language": "JAVA", "opaque": frame.header["opaque"]}
            header.update(serializeTypeCurrentRPC="JSON", version=409)
            text = json.dumps(header).encode()
            self._socket.sendall(struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body)
