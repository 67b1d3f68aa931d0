# SPDX-License-Identifier: Apache-2.0
"""The name server's keys on the disk: one write for all changes that came during the one before, and each is acknowledged after its own."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sprocketmq.broker import NameServer, NameServerConfig
from sprocketmq.errors import StoreNotWritable
from sprocketmq.net.process.engine import Engine
from sprocketmq.store import config_files
from sprocketmq.wire.codes import RequestCode

PUT = RequestCode.PUT_KV_CONFIG
WAIT_S = 30


class Disk:
    """Counts the writes of configuration files; :meth:`close` makes the next one wait, ``broken`` makes them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self.broken = False
        self.open = threading.Event()
        self.open.set()
        save = config_files.save_config

        def counted(path: str, raw: bytes, *, private: bool = False) -> None:
            self.writes += 1
            assert self.open.wait(WAIT_S)
            if self.broken:
                raise StoreNotWritable(f"{path} cannot be written: no space left on device")
            save(path, raw, private=private)

        monkeypatch.setattr(config_files, "save_config", counted)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def server(tmp_path: Path, disk: Disk) -> Iterator[NameServer]:
    engine = Engine("kv-test")
    made = NameServer(port=0, config=NameServerConfig(kv_config_path=str(tmp_path / "kv.json")), engine=engine)
    made.start()
    yield made
    disk.open.set()
    made.stop()
    engine.close()


def frame(code: int, opaque: int, **fields: str) -> bytes:
    text = json.dumps({"code": code, "flag": 0, "opaque": opaque, "extFields": fields}).encode()
    return struct.pack(">ii", 4 + len(text), len(text)) + text


def answers(connection: socket.socket, count: int) -> list[dict[str, Any]]:
    found, read = [], connection.makefile("rb")
    for _ in range(count):
        size, head = struct.unpack(">ii", read.read(8))
        found.append(json.loads(read.read(head)))
        read.read(size - 4 - head)
    return found


def connected(server: NameServer) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=WAIT_S)


def kept(path: Path) -> dict[str, Any]:
    table = json.loads(path.read_text())["configTable"]
    assert isinstance(table, dict)
    return table


def test_a_thousand_keys_in_one_write_cost_a_few_writes_of_the_file(
    server: NameServer, disk: Disk, tmp_path: Path
) -> None:
    frames = [frame(PUT, number, namespace="n", key=f"k{number}", value="v") for number in range(1_000)]
    with connected(server) as connection:
        connection.sendall(b"".join(frames))
        assert [answer["code"] for answer in answers(connection, 1_000)] == [0] * 1_000
    assert len(kept(tmp_path / "kv.json")["n"]) == 1_000
    assert disk.writes < 100


def test_other_requests_are_answered_during_the_write_and_the_change_after_it(
    server: NameServer, disk: Disk, tmp_path: Path
) -> None:
    disk.open.clear()
    with connected(server) as connection, connected(server) as other:
        connection.sendall(frame(PUT, 1, namespace="n", key="k", value="v"))
        deadline = time.monotonic() + WAIT_S
        while not disk.writes:
            assert time.monotonic() < deadline, "the write does not begin"
            time.sleep(0.002)
        other.sendall(frame(RequestCode.GET_BROKER_CLUSTER_INFO, 2))
        assert answers(other, 1)[0]["opaque"] == 2
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
        connection.settimeout(WAIT_S)
        disk.open.set()
        assert answers(connection, 1)[0]["code"] == 0
        assert kept(tmp_path / "kv.json") == {"n": {"k": "v"}}


def test_a_change_that_cannot_be_written_is_answered_with_an_error(server: NameServer, disk: Disk) -> None:
    disk.broken = True
    with connected(server) as connection:
        connection.sendall(frame(PUT, 1, namespace="n", key="k", value="v"))
        (answer,) = answers(connection, 1)
        assert answer["code"] != 0
        assert "no space left" in answer["remark"]
        disk.broken = False
        connection.sendall(frame(PUT, 2, namespace="n", key="k2", value="v"))
        assert answers(connection, 1)[0]["code"] == 0
