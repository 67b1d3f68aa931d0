# SPDX-License-Identifier: Apache-2.0
"""TLS on real sockets: both kinds on one port, certificates of our own, clients that show theirs, changes while running."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.engine import Engine, new_event_loop
from sprocketmq.net.server import Limits, Server
from sprocketmq.net.tls import ServerTls, TlsSettings
from sprocketmq.net.tls_reads import TlsReads
from sprocketmq.wire.frames.command import Command, request, response
from sprocketmq.wire.frames.frame import MAX_FRAME_BYTES, FrameDecoder
from system.net.conftest import while_serving

CA = trustme.CA()
OTHER_CA = trustme.CA()


def echo(connection: Connection, command: Command) -> Command:
    return response(command, 0, "echo", body=bytes(command.body))


def write_certificate(folder: Path, ca: trustme.CA = CA, name: str = "localhost", **dates: datetime) -> TlsSettings:
    issued = ca.issue_cert(name, "127.0.0.1", **dates)
    issued.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    ca.cert_pem.write_to_path(folder / "ca.pem")
    return TlsSettings("permissive", str(folder / "cert.pem"), str(folder / "key.pem"))


def trusting(ca: trustme.CA = CA, show: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if show is not None:
        show.configure_cert(context)
    return context


async def ask(address: str, context: ssl.SSLContext | None, body: bytes = b"hello") -> bytes:
    pool = ConnectionPool(ssl_context=context, connect_timeout_ms=60_000)
    try:
        return bytes((await pool.invoke(address, request(900, body=body), 60_000)).body)
    finally:
        await pool.aclose()


def with_server(
    engine: Engine, tls: ServerTls, scenario: Callable[[Server, str], Awaitable[Any]], **limits: Any
) -> Any:
    return while_serving(engine, Server(echo, tls=tls, limits=Limits(**limits)), scenario)


def with_settings(settings: TlsSettings, **changes: Any) -> ServerTls:
    return ServerTls(TlsSettings(**{**settings.__dict__, **changes}))


@pytest.fixture
def silent_peer(tmp_path: Path) -> Iterator[str]:
    """It shakes hands, and from then on neither reads nor says anything, not even goodbye."""
    settings = write_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings.cert_path, settings.key_path)
    over = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with context.wrap_socket(connection, server_side=True):
            over.wait(60)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        over.set()
        serving.join()


def test_closing_a_client_closes_the_socket_even_if_the_peer_does_not_answer_the_close(silent_peer):
    engine = Engine("test-tls-goodbye")

    async def come_and_go() -> Connection:
        pool = ConnectionPool(ssl_context=trusting())
        connection = await pool.connection(silent_peer)
        await pool.aclose()
        return connection

    connection = engine.run(come_and_go(), timeout_s=60)
    engine.close()  # a loop with an open socket cannot be closed: its thread would end with an error
    assert connection.is_gone
    assert engine.loop.is_closed()


@pytest.mark.parametrize("speaks_tls", [False, True])
def test_what_was_written_before_the_end_reaches_a_peer_that_reads_a_second_late(engine, tmp_path, speaks_tls):
    settings = write_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings.cert_path, settings.key_path)
    reads, frames = threading.Event(), []

    def serve() -> None:
        connection, _ = listening.accept()
        with context.wrap_socket(connection, server_side=True) if speaks_tls else connection as peer:
            reads.wait(60)
            decoder = FrameDecoder(MAX_FRAME_BYTES)
            with contextlib.suppress(OSError):
                while data := peer.recv(1 << 20):
                    frames.extend(decoder.cut(data)[1])

    async def come_and_go() -> None:
        pool = ConnectionPool(ssl_context=trusting() if speaks_tls else None)
        (await pool.connection(address)).set_socket_buffers(64 * 1024, 0)
        for _ in range(20):
            await pool.invoke_oneway(address, request(900, body=bytes(100_000)))
        asyncio.get_running_loop().call_later(1, reads.set)
        await pool.aclose()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        serving = threading.Thread(target=serve)
        serving.start()
        try:
            engine.run(come_and_go(), timeout_s=60)
        finally:
            reads.set()
            serving.join(60)
    assert len(frames) == 20


def test_a_connection_that_is_never_read_is_cut_and_logged(engine, caplog):
    async def come_and_go() -> Connection:
        pool = ConnectionPool()
        (await pool.connection(address)).set_socket_buffers(64 * 1024, 0)
        for _ in range(20):
            await pool.invoke_oneway(address, request(900, body=bytes(100_000)))
        connection = await pool.connection(address)
        await pool.aclose()
        return connection

    with socket.create_server(("127.0.0.1", 0)) as listening, caplog.at_level("WARNING", "sprocketmq.net"):
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert engine.run(come_and_go(), timeout_s=60).is_gone
    assert re.search(
        rf"{address} did not read for 5 s, so \d+ bytes that were written before the end are lost", caplog.text
    )


def test_permissive_speaks_plain_and_tls_on_one_port(engine, tmp_path):
    async def scenario(server: Server, address: str) -> None:
        large = bytes(range(256)) * 4_000  # several reads
        both = await asyncio.gather(*(ask(address, context, large) for context in (None, trusting()) * 5))
        assert all(answer == large for answer in both)

    with_server(engine, ServerTls(write_certificate(tmp_path)), scenario)


def test_enforcing_closes_a_plain_connection_and_serves_tls(engine, tmp_path):
    async def scenario(server: Server, address: str) -> None:
        with pytest.raises(NetworkError):
            await ask(address, None)
        assert await ask(address, trusting()) == b"hello"

    with_server(engine, with_settings(write_certificate(tmp_path), mode="enforcing"), scenario)


def test_a_client_notices_a_server_that_it_does_not_trust(engine, tmp_path):
    async def scenario(server: Server, address: str) -> None:
        with pytest.raises(NetworkError, match="certificate"):
            await ask(address, trusting(OTHER_CA))
        assert await ask(address, trusting()) == b"hello"

    with_server(engine, ServerTls(write_certificate(tmp_path)), scenario)


@pytest.mark.parametrize(("need", "without", "foreign"), [("require", False, False), ("optional", True, False)])
def test_clients_show_certificates_where_they_are_asked(engine, tmp_path, need, without, foreign):
    settings = write_certificate(tmp_path)
    trust = str(tmp_path / "ca.pem")
    tls = with_settings(settings, need_client_auth=need, auth_client=True, trust_cert_path=trust)

    async def answered(address: str, context: ssl.SSLContext) -> bool:
        try:
            return await ask(address, context) == b"hello"
        except NetworkError:
            return False

    async def scenario(server: Server, address: str) -> None:
        assert await answered(address, trusting(show=CA.issue_cert("client")))
        assert await answered(address, trusting()) == without
        assert await answered(address, trusting(show=OTHER_CA.issue_cert("client"))) == foreign

    with_server(engine, tls, scenario)


def test_a_new_certificate_counts_for_new_connections_and_open_ones_go_on(engine, tmp_path):
    tls = ServerTls(write_certificate(tmp_path))

    async def scenario(server: Server, address: str) -> None:
        pool = ConnectionPool(ssl_context=trusting())
        assert (await pool.invoke(address, request(900), 60_000)).remark == "echo"
        old_key = (tmp_path / "key.pem").read_bytes()
        write_certificate(tmp_path, OTHER_CA)
        new_key = (tmp_path / "key.pem").read_bytes()
        (tmp_path / "key.pem").write_bytes(old_key)  # half way: the new certificate with the old key
        tls.reload_if_changed()
        assert await ask(address, trusting()) == b"hello"
        (tmp_path / "key.pem").write_bytes(new_key)
        tls.reload_if_changed()
        assert await ask(address, trusting(OTHER_CA)) == b"hello"
        with pytest.raises(NetworkError):
            await ask(address, trusting())
        assert (await pool.invoke(address, request(900), 60_000)).remark == "echo"
        await pool.aclose()

    with_server(engine, tls, scenario)


NOW = datetime.now(UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("dates", "todo"),
    [
        ({"not_before": NOW - 9 * DAY, "not_after": NOW - DAY}, "expired; renew it"),
        ({"not_before": NOW + DAY, "not_after": NOW + 9 * DAY}, "not yet valid; compare the clocks"),
        ({}, ""),
    ],
    ids=["expired", "not yet valid", "valid"],
)
def test_dates_that_clients_refuse_are_told_to_both_sides(engine, tmp_path, caplog, dates, todo):
    tls = ServerTls(write_certificate(tmp_path, **dates))
    said = [record.getMessage() for record in caplog.records if record.name == "sprocketmq.net"]
    assert len(said) == bool(todo), said
    assert all("cert.pem" in line and todo.partition(";")[0] in line for line in said)

    async def scenario(server: Server, address: str) -> None:
        if todo:
            with pytest.raises(NetworkError, match=f"is not trusted: certificate (has|is) {todo}"):
                await ask(address, trusting())
        else:
            assert await ask(address, trusting()) == b"hello"
            with pytest.raises(NetworkError, match="trust the authority"):
                await ask(address, trusting(OTHER_CA))

    with_server(engine, tls, scenario)


def test_an_encrypted_key_is_read_with_its_password_only(tmp_path):
    settings = write_certificate(tmp_path)
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key((tmp_path / "key.pem").read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"sesame7")
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, form, encryption))
    with_settings(settings, key_password="sesame7")
    for wrong in ("", "guess77"):
        with pytest.raises(ConfigurationError):
            with_settings(settings, key_password=wrong)


def test_the_test_mode_certificate_works_for_clients_that_do_not_check_it(engine):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def scenario(server: Server, address: str) -> None:
        assert await ask(address, context) == b"hello"
        with pytest.raises(NetworkError):
            await ask(address, trusting())

    with_server(engine, ServerTls(TlsSettings(test_mode=True)), scenario)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"cert_path": ""}, "tls.server.certPath"),
        ({"key_path": "/nowhere/key.pem"}, "/nowhere/key.pem"),
        ({"need_client_auth": "require"}, "tls.server.trustCertPath"),
        ({"need_client_auth": "require", "auth_client": True, "trust_cert_path": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(tmp_path, changes, named):
    with pytest.raises(ConfigurationError, match=named):
        with_settings(write_certificate(tmp_path), **changes)


def test_a_half_open_handshake_and_a_silent_peer_cost_only_themselves(engine, tmp_path):
    async def scenario(server: Server, address: str) -> None:
        host, port = address.split(":")
        with (
            socket.create_connection((host, int(port))) as half_open,
            socket.create_connection((host, int(port))) as silent,
        ):
            half_open.sendall(b"\x16\x03\x01")
            assert await ask(address, trusting()) == b"hello"
            assert await ask(address, None) == b"hello"
            silent.setblocking(False)
            loop = asyncio.get_running_loop()
            assert await asyncio.wait_for(loop.sock_recv(silent, 1), 30) == b"", "a peer that says nothing is closed"

    with_server(engine, ServerTls(write_certificate(tmp_path)), scenario, max_idle_s=0.2)


def test_garbage_behind_the_first_byte_costs_its_connection(engine, tmp_path):
    async def scenario(server: Server, address: str) -> None:
        host, port = address.split(":")
        loop = asyncio.get_running_loop()
        with socket.create_connection((host, int(port))) as garbage:
            garbage.sendall(b"\x16" + b"garbage" * 100)
            garbage.setblocking(False)
            with contextlib.suppress(ConnectionResetError):  # the end of the stream, perhaps after a TLS alert
                while await asyncio.wait_for(loop.sock_recv(garbage, 100), 30):
                    pass
        assert await ask(address, trusting()) == b"hello"

    with_server(engine, ServerTls(write_certificate(tmp_path)), scenario)


def test_connections_over_the_limit_are_closed_before_their_handshake(engine, tmp_path):
    async def scenario(server: Server, address: str) -> None:
        pool = ConnectionPool(ssl_context=trusting())
        await pool.invoke(address, request(900), 60_000)
        with pytest.raises(NetworkError):
            await ask(address, trusting())
        assert server.refused_connections == 1
        await pool.aclose()

    with_server(engine, ServerTls(write_certificate(tmp_path)), scenario, max_connections=1)


@pytest.mark.parametrize("make_loop", [new_event_loop, asyncio.new_event_loop])
def test_records_are_read_into_one_buffer_and_not_into_blocks_of_their_own(make_loop, tmp_path, monkeypatch):
    tls = ServerTls(write_certificate(tmp_path))
    buffers, reads = [], []
    get_buffer, updated = TlsReads.get_buffer, TlsReads.buffer_updated

    def noted(self: TlsReads, sizehint: int) -> memoryview:
        buffers.append(get_buffer(self, sizehint))
        return buffers[-1]

    def noted_read(self: TlsReads, nbytes: int) -> None:
        reads.append(nbytes)
        updated(self, nbytes)

    monkeypatch.setattr(TlsReads, "get_buffer", noted)
    monkeypatch.setattr(TlsReads, "buffer_updated", noted_read)

    async def run() -> None:
        server = Server(echo, tls=tls)
        address = f"localhost:{await server.start('127.0.0.1', 0)}"
        body = bytes(range(256)) * 4_096
        assert await asyncio.gather(*(ask(address, trusting(), body) for _ in range(3))) == [body] * 3
        await server.stop()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(run())
    assert len(set(map(id, buffers))) == 4  # of the server, and of each pool
    assert sum(reads) > 6 * (1 << 20)  # all that was asked and answered came this way
