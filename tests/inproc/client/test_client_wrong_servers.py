# SPDX-License-Identifier: Apache-2.0
"""Servers of another kind than the one that was meant: a broker given as name server, TLS at a plain port, and the other way round."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trustme

import sprocketmq as rmq
from sprocketmq.broker import Broker, NameServer, NameServerConfig
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import request

CA = trustme.CA()


def _listening(consumer: rmq.PushConsumer) -> rmq.PushConsumer:
    consumer.subscribe("flights")
    consumer.on_message(lambda message: None)
    return consumer


ASKING: dict[str, Callable[..., Any]] = {
    "a send": lambda **given: rmq.Producer("ops", **given),
    "a push consumer": lambda **given: _listening(rmq.PushConsumer("delays", **given)),
    "an administrator": lambda **given: rmq.Admin(**given),
    "the dead letters": lambda **given: rmq.DeadLetters("delays", **given),
}


def _ask(who: str, address: str, **options: Any) -> None:
    client = ASKING[who](namesrv_addr=address, **options)
    try:
        client.start()
        if who == "a send":
            client.send(rmq.Message("flights", b"x"))
        elif who == "an administrator":
            client.topics()
        else:
            client.count()
    finally:
        client.shutdown()


@pytest.mark.parametrize("who", ASKING)
def test_a_broker_that_was_given_as_name_server_is_called_one(rocketmq, who):
    sentence = f"^{rocketmq.broker_addr} is a broker, not a name server; its name servers are usually at port 9876$"
    with pytest.raises(rmq.ConfigurationError, match=sentence):
        _ask(who, rocketmq.broker_addr)


def test_a_name_server_that_was_given_as_broker_is_called_one(rocketmq):
    with (
        rocketmq.admin() as admin,
        pytest.raises(
            rmq.ConfigurationError, match=f"^{rocketmq.namesrv_addr} is a name server, not a broker; brokers"
        ),
    ):
        admin.broker_config(rocketmq.namesrv_addr)


def test_a_broker_that_registers_with_a_broker_says_so(rocketmq, caplog):
    lost = Broker(namesrv_addr=rocketmq.broker_addr, host="127.0.0.1", port=0, broker_name="broker-b")
    lost.start()
    lost.stop()
    assert f"{rocketmq.broker_addr} is a broker or a proxy, not a name server" in caplog.text


def test_the_grpc_port_of_a_proxy_is_called_one():
    """The first bytes of Apache's proxy there: SETTINGS, then GOAWAY because no client preface came."""
    settings = bytes.fromhex("00001204000000000000037fffffff000400100000000600002000000004080000000000000f0001")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(64 * 1024)
                    peer.sendall(settings)

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            rmq.Producer("ops", namesrv_addr=address, instance_name="grpc") as producer,
            pytest.raises(
                rmq.ConnectionLost, match=f"^{address} speaks HTTP/2, as the gRPC port of a proxy does; use its"
            ),
        ):
            producer.send(rmq.Message("flights", b"x"))
        server.shutdown(socket.SHUT_RDWR)


# -- TLS ------------------------------------------------------------------------------------------------------------------------------


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    CA.configure_trust(context)
    return context


@pytest.mark.parametrize("who", ASKING)
def test_tls_at_a_plain_port_is_reported_as_the_wrong_protocol(rocketmq, who):
    sentence = (
        f"^the TLS handshake with {rocketmq.namesrv_addr} failed: .+; TLS and a plain port do not fit: connect without"
    )
    with pytest.raises(rmq.ConnectFailed, match=sentence):
        _ask(who, rocketmq.namesrv_addr, tls=True)


@pytest.mark.parametrize("who", ASKING)
def test_a_plain_client_at_a_tls_only_port_is_told_to_use_tls(tmp_path, who):
    issued = CA.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    both = str(tmp_path / "both.pem")
    config = NameServerConfig(tls_server_mode="enforcing", tls_server_cert_path=both, tls_server_key_path=both)
    with NameServer(host="127.0.0.1", port=0, config=config) as namesrv:
        with pytest.raises(rmq.ConnectionLost, match=r"if that port takes TLS only, connect with TLS, as with"):
            _ask(who, namesrv.address)
        with rmq.Admin(namesrv_addr=namesrv.address, ssl_context=_trusting()) as admin:
            assert admin.topics() == []
        with (
            rmq.Admin(namesrv_addr=namesrv.address, tls=True) as admin,
            pytest.raises(
                rmq.ConnectFailed, match=f"^the certificate of {namesrv.address} is not trusted: .+; trust the"
            ),
        ):
            admin.topics()


def test_a_silent_server_is_not_taken_for_one_of_tls_by_those_who_wait_longer():
    """The first timeout gives the connection up; others hear why."""

    async def ask_a_silent_one() -> tuple[BaseException, ...]:
        async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silence, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        pool = ConnectionPool()
        asked = [
            pool.invoke(address, request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), ms) for ms in (150, 60_000)
        ]
        failed = await asyncio.gather(*asked, return_exceptions=True)
        await pool.aclose()
        server.close()
        return tuple(one for one in failed if isinstance(one, BaseException))

    first, second = asyncio.run(ask_a_silent_one())
    assert isinstance(first, rmq.RequestTimeout)
    assert isinstance(second, rmq.ConnectionLost)
    assert str(first) in str(second)
    assert "TLS" not in str(second)


def test_a_server_that_goes_away_later_is_not_taken_for_one_of_tls(rocketmq, admin):
    admin.topics()
    rocketmq.faults.close_connection(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, times=2)
    with pytest.raises(rmq.ConnectionLost) as failure:
        admin.topics()
    assert "TLS" not in str(failure.value)
