# SPDX-License-Identifier: Apache-2.0
"""Bytes that are not the protocol cost their own connection, never the server."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import warnings

import pytest

from sprocketmq.wire.frames.command import encode_command, request
from sprocketmq.wire.headers import GetMaxOffsetRequestHeader

GOOD = encode_command(request(30, GetMaxOffsetRequestHeader("flights", 0)))

BAD = {
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a huge length": struct.pack(">i", 0x7FFFFFFF) + b"x" * 100,
    "a length over 16 MiB": struct.pack(">i", 16 * 1024 * 1024 + 1),
    "a negative length": struct.pack(">i", -1) + b"x" * 100,
    "a zero length": struct.pack(">i", 0),
    "a header longer than its frame": struct.pack(">ii", 8, 1000) + b"{}{}",
    "a header that is no JSON": struct.pack(">ii", 12, 8) + b"not json",
    "an unknown encoding": struct.pack(">ii", 8, (9 << 24) | 4) + b"abcd",
    "a broken binary header": struct.pack(">ii", 12, (1 << 24) | 8) + b"\xff" * 8,
    "noise": random.Random(7).randbytes(5000),
}


def connect(cluster) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", cluster.broker.port), timeout=10)
    connection.settimeout(10)
    return connection


def is_cut(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("what", BAD)
def test_bad_bytes_close_only_their_connection(cluster, client, what):
    with connect(cluster) as bystander, connect(cluster) as bad:
        bystander.sendall(GOOD[:10])
        bad.sendall(GOOD + BAD[what])
        while not is_cut(bad):  # the answer to the good request, byte by byte, then the end
            pass
        bystander.sendall(GOOD[10:])
        assert len(bystander.recv(8)) == 8
    assert client.send("flights").code == 0


def connections(cluster):
    return cluster.broker.ports._server.connections


def queued_bytes(cluster) -> int:
    return sum(sum(peer.queued_bytes()) for peer in connections(cluster))


def test_a_peer_that_never_reads_does_not_hold_up_others(cluster, client):
    for n in range(64):
        client.send("flights", b"z" * 60_000, properties={"UNIQ_KEY": str(n)})
    frame = encode_command(request(11, client.pull_header("g", "flights")))
    with connect(cluster) as deaf:
        deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(200):
                deaf.send(frame)
        cluster.eventually(
            lambda: any(peer.is_congested for peer in connections(cluster)) or queued_bytes(cluster) == 0
        )
        assert cluster.on_loop(lambda: queued_bytes(cluster)) <= 6 * 1024 * 1024, "the mark, one write, one answer"
        assert client.send("flights", b"still here").code == 0
        assert client.pull("g", "flights", 0, 64).code == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert client.pull("g", "flights", 0, 64).code == 0
