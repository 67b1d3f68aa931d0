# SPDX-License-Identifier: Apache-2.0
"""Peers that overload a server with well-formed requests. `hostile_frames.py` runs these floods one after the other, together with honest
clients.

    python bench/hostile_floods.py --kind NAME --broker-port P --namesrv-port Q [--seconds S]

It is a separate process, so that its work does not delay the honest clients that are timed. Prints one JSON line: what it sent, and the
number of answers. The docstring of each kind describes it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from interop.large_tables import compressed_registration  # noqa: E402

_CONNECTIONS: Final = 60
_CONNECT_TIMEOUT_S: Final = 10


class Flood:
    """Connections to both servers, and counts; ``is_over`` after the given time."""

    def __init__(self, ports: dict[str, int], seconds: float) -> None:
        self._ports, self._ends_s = ports, time.monotonic() + seconds
        self.requests = self.answers = self.closed = 0

    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_s

    def connect(self, to: str = "broker", buffer_bytes: int = 0) -> socket.socket:
        connection = socket.socket()
        if buffer_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        connection.settimeout(_CONNECT_TIMEOUT_S)
        connection.connect(("127.0.0.1", self._ports[to]))
        return connection

    def write_without_reading(self, connections: list[socket.socket], data: bytes, requests: int) -> None:
        """Write ``data`` to each connection as far as possible, until the time is over; closed connections are not opened again."""
        left = {connection: memoryview(data) for connection in connections}
        for connection in connections:
            connection.setblocking(False)
        while left and not self.is_over():
            _, writable, _ = select.select([], list(left), [], 0.2)
            for connection in writable:
                try:
                    sent = connection.send(left[connection][: 1 << 18])
                except BlockingIOError:
                    continue
                except OSError:
                    self.closed += 1
                    del left[connection]
                    continue
                left[connection] = left[connection][sent:]
                if not left[connection]:
                    left[connection] = memoryview(data)
                    self.requests += requests

    def ask_again_and_again(self, to: str, data: Callable[[int], bytes], requests: int) -> None:
        """With one connection, repeatedly write this number of requests and read all answers; connect again if it is closed."""
        number = 0
        while not self.is_over():
            with contextlib.suppress(OSError), self.connect(to) as connection:
                connection.settimeout(30)
                read = connection.makefile("rb")
                while not self.is_over():
                    connection.sendall(data(number))
                    number += 1
                    self.requests += requests
                    for _ in range(requests):
                        size = read.read(4)
                        if len(size) < 4:
                            raise ConnectionResetError
                        read.read(struct.unpack(">i", size)[0])
                        self.answers += 1
                continue
            self.closed += 1


def frame(code: int, fields: dict[str, str] | None = None, body: bytes = b"", opaque: int = 1) -> bytes:
    head = json.dumps({"code": code, "flag": 0, "opaque": opaque, "version": 409, "extFields": fields or {}}).encode()
    return struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body


def deaf_peers(flood: Flood) -> None:
    """Request all topics, groups, offsets, settings and statistics, and never read."""
    asked = b"".join(frame(code) for code in (21, 201, 43, 26, 28) * 200)
    flood.write_without_reading([flood.connect(buffer_bytes=4_096) for _ in range(_CONNECTIONS)], asked, 1_000)


def unfinished_frames(flood: Flood) -> None:
    """Announce a frame of 16 MiB and stop a byte before its end."""
    announced = 16 << 20
    data = memoryview(struct.pack(">ii", announced, 0) + bytes(announced - 5))
    connections = [flood.connect() for _ in range(_CONNECTIONS)]
    left = dict.fromkeys(connections, data)
    for connection in connections:
        connection.setblocking(False)
    while left and not flood.is_over():
        _, writable, _ = select.select([], list(left), [], 0.2)
        for connection in writable:
            try:
                left[connection] = left[connection][connection.send(left[connection][: 1 << 18]) :]
            except BlockingIOError:
                continue
            except OSError:
                flood.closed += 1
                del left[connection]
                continue
            if not left[connection]:
                flood.requests += 1
                del left[connection]
    while not flood.is_over():
        time.sleep(0.05)


def heartbeats(flood: Flood) -> None:
    """Heartbeats with 100,000 groups, and heartbeats with 900 new groups each."""
    groups = [{"groupName": f"stranger-{number}", "subscriptionDataSet": []} for number in range(100_000)]
    whole = frame(34, None, json.dumps({"clientID": "s", "consumerDataSet": groups, "producerDataSet": []}).encode())

    def some(number: int) -> bytes:
        names = [{"groupName": f"s-{number}-{each}", "subscriptionDataSet": []} for each in range(900)]
        body = json.dumps({"clientID": f"s{number}", "consumerDataSet": names, "producerDataSet": names}).encode()
        return frame(34, None, body)

    flood.ask_again_and_again("broker", lambda number: whole if number % 5 == 0 else some(number), 1)


def registrations(flood: Flood) -> None:
    """Registrations of brokers that do not exist, with 20,000 topics each, compressed to a few bytes per topic."""
    body = compressed_registration(20_000)

    def one(number: int) -> bytes:
        name = f"liar-{number % 2_000}"
        fields = {"brokerName": name, "brokerAddr": f"127.0.0.1:{number % 2_000 + 1}", "clusterName": "liars", "brokerId": "0",
                  "haServerAddr": "", "compressed": "true"}  # fmt: skip
        return frame(103, fields, body)

    flood.ask_again_and_again("namesrv", one, 1)


def keys(flood: Flood) -> None:
    """A thousand PUT_KV_CONFIG in one write."""

    def thousand(number: int) -> bytes:
        return b"".join(
            frame(100, {"namespace": "strangers", "key": f"k{number}-{each}", "value": "v" * 50})
            for each in range(1_000)
        )

    flood.ask_again_and_again("namesrv", thousand, 1_000)


def many_in_one_write(flood: Flood) -> None:
    """Five thousand requests that need some work each, in one write."""
    asked = b"".join(
        frame(code, {"topic": "compared", "group": "readers", "consumerGroup": "readers"})
        for code in (202, 208, 203, 300, 28) * 1_000
    )
    flood.ask_again_and_again("broker", lambda number: asked, 5_000)


KINDS: Final[dict[str, Callable[[Flood], None]]] = {
    "deaf peers": deaf_peers,
    "unfinished frames": unfinished_frames,
    "heartbeats": heartbeats,
    "registrations": registrations,
    "keys": keys,
    "many in one write": many_in_one_write,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="One flood of well-formed requests.")
    parser.add_argument("--kind", choices=sorted(KINDS), required=True)
    parser.add_argument("--broker-port", type=int, required=True)
    parser.add_argument("--namesrv-port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    flood = Flood({"broker": options.broker_port, "namesrv": options.namesrv_port}, options.seconds)
    KINDS[options.kind](flood)
    print(json.dumps({"requests": flood.requests, "answers": flood.answers, "closed": flood.closed}))


if __name__ == "__main__":
    main()
