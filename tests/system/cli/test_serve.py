# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sprocketmq as rmq
from interop.remoting import ask
from sprocketmq.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from .conftest import Ended


def send(namesrv_addr: str, count: int) -> list[int]:
    """The offsets of messages that are sent one by one to a new topic."""
    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        admin.create_topic("orders", queues=1)
    with rmq.Producer("shop", namesrv_addr=namesrv_addr, retry_times_when_send_failed=0) as producer:
        return [producer.send(rmq.Message("orders", b"at once")).queue_offset for _ in range(count)]


def assert_one_sentence(ended: Ended) -> None:
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("sprocketmq: ")
    assert len(ended.err.splitlines()) == 1, ended.err


def test_serve_prints_one_ready_line_and_ends_with_zero_on_sigterm(cli):
    server = cli.serve()
    ready = re.fullmatch(r"ready namesrv=127\.0\.0\.1:(\d+) broker=127\.0\.0\.1:(\d+) pid=(\d+)\n", server.ready_line)
    assert ready is not None, server.ready_line
    assert int(ready[3]) == server.process.pid
    # Registered when it says ready: the name server knows the broker's address.
    info = ask(server.addresses["namesrv"], RequestCode.GET_BROKER_CLUSTER_INFO)
    assert info.code == ResponseCode.SUCCESS
    assert server.addresses["broker"].encode() in info.body
    ended = server.end()
    assert (ended.code, ended.out, ended.err) == (0, "", "")


@pytest.mark.parametrize("apart", [False, True], ids=["one process", "two processes"])
def test_ready_means_that_a_topic_can_be_made_and_sent_to(cli, apart):
    if apart:
        namesrv = cli.start("namesrv", "--port", "0")
        assert re.fullmatch(r"ready namesrv=127\.0\.0\.1:\d+ pid=\d+\n", namesrv.ready_line)
        namesrv_addr = namesrv.addresses["namesrv"]
        broker = cli.start("broker", "--port", "0", "--namesrv-addr", namesrv_addr)
        assert re.fullmatch(r"ready broker=127\.0\.0\.1:\d+ pid=\d+\n", broker.ready_line)
    else:
        namesrv_addr = cli.serve().addresses["namesrv"]
    assert send(namesrv_addr, 1) == [0]


def test_a_broker_is_ready_when_its_name_server_knows_it(cli):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    broker = cli.spawn("broker", "--port", "0", "--namesrv-addr", f"127.0.0.1:{port}")
    assert "does not know broker broker-a now" in broker.log_line()
    namesrv = cli.start("namesrv", "--port", str(port))
    broker.wait_ready()
    info = ask(namesrv.addresses["namesrv"], RequestCode.GET_BROKER_CLUSTER_INFO)
    assert broker.addresses["broker"].encode() in info.body
    assert broker.end().out == ""


def test_a_broker_that_no_name_server_knows_yet_ends_on_a_signal(cli):
    broker = cli.spawn("broker", "--port", "0", "--namesrv-addr", "127.0.0.1:1")
    assert "does not know broker broker-a now" in broker.log_line()
    ended = broker.end()
    assert (ended.code, ended.out) == (0, "")


def test_a_server_ends_with_the_stdin_of_its_caller_when_told_to(cli):
    server = cli.serve("--until-stdin-closes")
    assert server.process.stdin is not None
    server.process.stdin.close()
    server.process.stdin = None
    assert server.wait().code == 0


def test_a_port_that_is_taken_is_one_sentence(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = cli.run("serve", "--namesrv-port", str(port), "--broker-port", "0")
        assert_one_sentence(ended)
        assert f"127.0.0.1:{port}" in ended.err
        ended = cli.run("serve", "--namesrv-port", "0", "--broker-port", str(port))
        assert_one_sentence(ended)
        assert f"127.0.0.1:{port}" in ended.err


def test_a_store_that_another_process_has_open_is_one_sentence(cli, tmp_path):
    store = tmp_path / "store"
    server = cli.serve("--store", str(store))
    assert server.ready_line
    ended = cli.run("serve", "--namesrv-port", "0", "--broker-port", "0", "--store", str(store))
    assert_one_sentence(ended)
    assert str(store) in ended.err
    assert server.end().code == 0
    assert cli.serve("--store", str(store)).end().code == 0


def test_an_unknown_key_is_named_in_a_warning_and_the_server_starts(cli, tmp_path):
    config = tmp_path / "broker.conf"
    config.write_text("brokerName = broker-z\nflushDiskTpye = SYNC_FLUSH\n")
    server = cli.serve(
        "--config", str(config), "--set", "messageDelayLevel=1s 2s", "--set", "scanNotActiveBrokerInterval=1000"
    )
    assert b"broker-z" in ask(server.addresses["namesrv"], RequestCode.GET_BROKER_CLUSTER_INFO).body
    ended = server.end()
    assert ended.code == 0
    (warning,) = ended.err.splitlines()
    assert "WARNING" in warning
    assert "flushDiskTpye" in warning
    assert "messageDelayLevel" not in warning


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks at the process as ps does, in /proc")
def test_secrets_from_files_and_the_environment_are_not_visible_in_ps(cli, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("told-by-file\n")
    monkeypatch.setenv("SPROCKETMQ_SET_brokerClusterName", "told-by-environment")
    server = cli.serve("--set-file", f"brokerName={tmp_path / 'secret'}")
    info = ask(server.addresses["namesrv"], RequestCode.GET_BROKER_CLUSTER_INFO).body
    assert b"told-by-file" in info
    assert b"told-by-environment" in info
    assert b"told-by" not in Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    assert server.end().code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "flushDiskType=SOMETIMES"], "ASYNC_FLUSH or SYNC_FLUSH"),
        (["--config", "/nowhere/broker.conf"], "/nowhere/broker.conf cannot be read"),
        (["--host", "203.0.113.1"], "203.0.113.1"),
    ],
)
def test_a_wrong_setting_is_one_sentence(cli, arguments, said):
    ended = cli.run("serve", "--namesrv-port", "0", "--broker-port", "0", *arguments)
    assert_one_sentence(ended)
    assert said in ended.err


def test_a_broker_without_a_name_server_says_how_to_give_one(cli, monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    ended = cli.run("broker", "--port", "0")
    assert_one_sentence(ended)
    assert "--namesrv-addr" in ended.err


def test_a_server_starts_without_what_only_some_of_them_need():
    """Index entries, SQL filters, accounts, a metrics port, a person watching: each brings its library when it comes."""
    later = (
        "numpy",
        "lark",
        "yaml",
        "prometheus_client",
        "rich",
        "cryptography",
        "sprocketmq.client",
        "multiprocessing",
    )
    script = f"import sys, sprocketmq.cli.serve.servers; print([name for name in {later!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_cluster_that_is_not_there_is_one_sentence(cli):
    ended = cli.run("topics", "--namesrv-addr", "127.0.0.1:1")
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (1, "", 1)
