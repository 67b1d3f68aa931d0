# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq handover`` against servers of their own process, with a slave of bare sockets."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from interop.remoting import ask
from sprocketmq.wire.bodies import ClusterInfo
from sprocketmq.wire.codes import RequestCode

ROUND = (
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
)


@contextlib.contextmanager
def slave(broker: str) -> Iterator[None]:
    """Holds an empty log, and asks for the metadata again and again, as a slave does."""
    info = ask(broker, RequestCode.EXCHANGE_BROKER_HA_INFO).header["extFields"]
    host, port = info["masterHaAddress"].split(":")
    stop = threading.Event()

    def rounds() -> None:
        while not stop.is_set():
            with contextlib.suppress(Exception):  # the broker ends in the middle of it: that is what is tested
                for code in ROUND:
                    ask(broker, code)
            time.sleep(0.05)

    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(struct.pack(">q", 0))
        thread = threading.Thread(target=rounds)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def test_without_a_slave_the_broker_serves_on_and_the_command_says_what_was_missing(cli, tmp_path):
    broker = cli.serve("--store", str(tmp_path / "store")).addresses["broker"]
    ended = cli.run("handover", "--broker", broker, "--timeout", "0.5")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        "waiting for a slave to connect",
        "gave up after 0.5 s; the broker continues as before",
    ]
    assert ask(broker, RequestCode.GET_ALL_TOPIC_CONFIG).code == 0


def test_after_a_handover_serve_goes_on_as_name_server(cli, tmp_path):
    server = cli.serve("--store", str(tmp_path / "store"))
    with slave(server.addresses["broker"]):
        ended = cli.run("handover", "--broker", server.addresses["broker"], "--timeout", "30")
    assert ended.code == 0, ended
    assert re.fullmatch(r"handed over log=0 slave=127\.0\.0\.1:\d+\n", ended.out)
    deadline = time.monotonic() + 30
    while True:
        info = ask(server.addresses["namesrv"], RequestCode.GET_BROKER_CLUSTER_INFO)
        if not ClusterInfo.decode(info.body).broker_addr_table:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert server.process.poll() is None
    assert server.end().code == 0
    again = cli.run("serve", "--namesrv-port", "0", "--broker-port", "0", "--store", str(tmp_path / "store"))
    assert again.code == 2
    assert "was handed over" in again.err


def test_a_broker_alone_ends_by_itself_after_a_handover(cli, tmp_path):
    names = cli.start("namesrv", "--port", "0").addresses["namesrv"]
    server = cli.start("broker", "--namesrv-addr", names, "--port", "0", "--store", str(tmp_path / "store"))
    with slave(server.addresses["broker"]):
        assert cli.run("handover", "--broker", server.addresses["broker"]).code == 0
        assert server.wait().code == 0
    assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("--broker", "nowhere"), 2, "--broker is 'nowhere'"),
        (("--broker", "127.0.0.1:1"), 1, "127.0.0.1:1"),
        (("--broker", "127.0.0.1:1", "--timeout", "0"), 2, "--timeout is 0"),
        (("--broker", "127.0.0.1:1", "--access-key", "k"), 2, "access_key is given without secret_key"),
    ],
)
def test_a_mistake_is_one_sentence(cli, arguments, code, what):
    ended = cli.run("handover", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert what in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_broker_in_memory_cannot_hand_over(cli):
    ended = cli.run("handover", "--broker", cli.serve().addresses["broker"])
    assert ended.code == 1
    assert "replication port" in ended.err
