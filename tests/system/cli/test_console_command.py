# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq console`` and ``serve --console``: the line with the link, who gets in, and how they end."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

import httpx
import pytest

READY = re.compile(r"ready (?:namesrv=\S+ broker=\S+ )?console=(http://127\.0\.0\.1:\d+/\?token=\S{43}) pid=\d+\n")


def link_of(ready_line: str) -> str:
    found = READY.fullmatch(ready_line)
    assert found is not None, ready_line
    return found[1]


def test_the_console_of_a_cluster_is_served_until_it_is_told_to_stop(cli):
    servers = cli.serve()
    console = cli.start("console", "-n", servers.addresses["namesrv"], "--port", "0", "--interval", "500ms")
    link = link_of(console.ready_line)
    with httpx.Client(base_url=link.partition("/?")[0], timeout=30) as browser:
        assert browser.get("/").status_code == 401
        assert browser.get(link).status_code == 200
        assert "read-only" in browser.get("/").text
        with browser.stream("GET", "/events") as stream:  # a page that is open holds up no end
            assert next(stream.iter_lines())
            ended = console.end(signal.SIGTERM)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_serve_has_the_console_of_its_broker(cli, tmp_path):
    (tmp_path / "token").write_text("a-token-that-nobody-guesses\n")
    options = ["--console", "0", "--allow-changes", "--token-file", f"{tmp_path}/token"]
    server = cli.serve(*options)
    assert server.ready_line.startswith("ready namesrv=")
    link = server.ready_line.partition("console=")[2].split()[0]
    assert "a-token-that-nobody-guesses" not in server.ready_line  # a log keeps it
    with httpx.Client(base_url=link, timeout=30) as browser:
        assert browser.get("/").status_code == 401
        assert browser.get("/", params={"token": "a-token-that-nobody-guesses"}).status_code == 200
        assert "broker-a" in browser.get("/brokers").text
    ended = server.end()
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_mistakes_are_one_sentence(cli, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, wanted in (
            (["--port", port], f"cannot listen on 127.0.0.1:{port}"),
            (["--port", "0", "--token-file", f"{tmp_path}/none"], "--token-file"),
        ):
            ended = cli.run("console", "-n", "127.0.0.1:1", *options)
            assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1), ended
            assert wanted in ended.err


def test_the_console_of_a_broker_is_a_process_of_its_own_that_ends_with_it(cli):
    server = cli.serve("--console", "0")
    link = server.ready_line.partition("console=")[2].split()[0]
    with httpx.Client(timeout=30) as browser:
        assert browser.get(link).status_code == 200
        server.process.kill()
        server.wait()  # its console has the other end of stderr, so it has ended, too
        with pytest.raises(httpx.TransportError):
            browser.get(link)


def test_servers_open_no_store_if_their_console_cannot_start(cli, tmp_path):
    store = tmp_path / "store"
    ports = ("--namesrv-port", "0", "--broker-port", "0", "--console", "0")
    ended = cli.run("serve", *ports, "--store", str(store), "--mask=(")
    assert (ended.code, ended.out) == (2, "")
    assert len(ended.err.splitlines()) == 1, ended.err
    assert not (store / "commitlog").exists()


def test_servers_go_on_without_their_console(cli):
    server = cli.serve("--console", "0")
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    assert len(children) == 1
    os.kill(int(children[0]), signal.SIGKILL)
    assert "the console ended with exit code -9" in server.log_line()
    assert cli.run("topic", "list", "-n", server.addresses["namesrv"]).code == 0
    assert server.end().code == 0
