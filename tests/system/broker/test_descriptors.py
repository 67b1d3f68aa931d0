# SPDX-License-Identifier: Apache-2.0
"""One budget of file descriptors: topics and clients together do not use up what the process may open, on any of its ports."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from interop.apache_cluster import free_ports
from interop.child import poll_until
from interop.remoting import request_frame
from interop.sprocket_server import SprocketServer
from system.broker.floods import create_topics, send_fields

pytestmark = pytest.mark.timeout(300)


def limited_server(folder: Path, limit: int, **settings: str | int | bool) -> SprocketServer:
    """A server that a shell has given so many descriptors, and no right to more."""
    command = SprocketServer.command()
    script = folder / "limited"
    script.write_text(f'#!/bin/sh\nulimit -n {limit} && exec "{command}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

    class Limited(SprocketServer):
        @staticmethod
        def command(checkout: Path | None = None) -> str:
            return str(script)

    return Limited(folder / "store", **settings)


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture
def many_sockets() -> Iterator[None]:
    """This process opens the clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def opened(address: str, count: int, clients: contextlib.ExitStack) -> int:
    """Connects so many clients; how many of them the server closed at once."""
    host, port = address.rsplit(":", 1)
    sockets = [clients.enter_context(socket.create_connection((host, int(port)), 30)) for _ in range(count)]
    refused = 0
    for connection in sockets:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request_frame(105, {"topic": "topic-0"}))
        with contextlib.suppress(ConnectionResetError):
            if connection.recv(4):
                continue
        refused += 1
    return refused


def send_to_all(broker: str, topics: int, body: bytes) -> list[int]:
    """The codes of one send to each topic, all on one connection."""
    host, port = broker.rsplit(":", 1)
    codes = []
    with socket.create_connection((host, int(port)), 60) as connection, connection.makefile("rb") as stream:
        for number in range(topics):
            connection.sendall(request_frame(310, send_fields(f"topic-{number}"), body))
            frame = stream.read(int.from_bytes(stream.read(4), "big"))
            codes.append(0 if b'"code":0' in frame else 1)
    return codes


@pytest.mark.parametrize(("limit", "topics", "clients"), [(256, 200, 120), (1024, 500, 760)])
def test_many_topics_and_many_clients_fit_and_more_clients_are_refused_while_sends_go_on(
    tmp_path, many_sockets, limit, topics, clients
):
    with limited_server(tmp_path, limit) as server, contextlib.ExitStack() as stack:
        create_topics(server.broker_addr, [f"topic-{number}" for number in range(topics)])
        sending = send_to_all(server.broker_addr, topics, b"first")
        assert sending == [0] * topics
        half = clients // 2
        assert opened(server.broker_addr, half, stack) == 0
        assert opened(server.namesrv_addr, clients - half, stack) == 0
        assert send_to_all(server.broker_addr, topics, b"second") == [0] * topics
        refused = [opened(address, limit // 2, stack) for address in (server.broker_addr, server.namesrv_addr)]
        assert sum(refused) > 0
        # Those that were accepted before any was refused are served: what is new on the disk, too.
        held = descriptors(server.broker_pid)
        assert held <= limit - 16, "some are left for files"
        stack.close()
        poll_until(lambda: descriptors(server.broker_pid) < held - clients // 2, "the clients are gone")
        create_topics(server.broker_addr, [f"later-{number}" for number in range(10)])
        assert send_to_all(server.broker_addr, topics, b"third") == [0] * topics
        assert "a connection is refused" in server.log_text()
        assert "no more file descriptors" not in server.log_text()
        assert "Traceback" not in server.log_text()


def test_sends_go_on_while_every_port_is_full(tmp_path, many_sockets):
    limit, topics = 256, 100
    metrics_port = free_ports()
    settings = {"metricsExporterType": "PROM", "metricsPromExporterPort": metrics_port}
    with limited_server(tmp_path, limit, **settings) as server, contextlib.ExitStack() as stack:
        create_topics(server.broker_addr, [f"topic-{number}" for number in range(topics)])
        host, port = server.broker_addr.rsplit(":", 1)
        sender = stack.enter_context(socket.create_connection((host, int(port)), 60))
        stream = stack.enter_context(sender.makefile("rb"))
        for other in (
            int(port),
            int(port) - 2,
            int(port) + 1,
            metrics_port,
        ):  # clients, slaves' topics, replication, metrics
            for _ in range(limit):
                with contextlib.suppress(OSError):
                    stack.enter_context(socket.create_connection((host, other), 5))
            for number in range(topics):
                sender.sendall(request_frame(310, send_fields(f"topic-{number}"), b"m"))
                frame = stream.read(int.from_bytes(stream.read(4), "big"))
                assert b'"code":0' in frame, (other - int(port), number, frame)


@pytest.mark.parametrize("listens", ["plain", "TLS, too"])
def test_connections_without_a_descriptor_cost_the_others_nothing_and_come_in_when_there_is_one(tmp_path, listens):
    settings: dict[str, str | int | bool] = {}
    if listens != "plain":
        certificate = trustme.CA().issue_cert("127.0.0.1")
        certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
        certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
        settings = {"tls.server.mode": "permissive", "tls.server.keyPath": f"{tmp_path}/key.pem"}
        settings["tls.server.certPath"] = f"{tmp_path}/cert.pem"
    with limited_server(tmp_path, 128, **settings) as server, contextlib.ExitStack() as clients:
        create_topics(server.broker_addr, ["topic-0"])
        host, port = server.broker_addr.rsplit(":", 1)

        def client() -> socket.socket:
            return clients.enter_context(socket.create_connection((host, int(port)), 30))

        def asks(connection: socket.socket) -> bool:
            with contextlib.suppress(ConnectionError):
                connection.sendall(request_frame(30, {"topic": "topic-0", "queueId": "0"}))  # needs no descriptor
                return b'"code":0' in connection.recv(4_096)
            return False

        honest = client()
        assert asks(honest)
        pid = server.broker_pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
        lowest_free = next(number for number in range(hard) if number not in taken)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, hard))  # "ulimit -n" of a process that runs
        waiting = [client() for _ in range(5)]  # the system has them, the process does not
        for _ in range(200):
            assert asks(honest)
        assert server.exit_code is None
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
        poll_until(lambda: asks(client()), "a new connection is served")
        # libuv accepts and closes at once what it has no descriptor for; asyncio and the TLS listener leave it to the system for a second.
        answered = [asks(connection) for connection in waiting]
        assert all(answered) or listens == "plain"
        assert asks(honest)
        if listens != "plain":
            lines = [line for line in server.log_text().splitlines() if "no connection can be accepted" in line]
            assert 1 <= len(lines) < 60, "not one for each turn of the loop"
        assert "Traceback" not in server.log_text()


def test_a_server_takes_what_the_process_may_have(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))  # the server inherits it
    try:
        server = SprocketServer(tmp_path / "store").start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        limits = Path(f"/proc/{server.broker_pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == [str(hard), str(hard)]
    finally:
        server.stop()
