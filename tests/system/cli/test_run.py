# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq run``: consumers of a user's modules, their health, signals, reload, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.cli.serve.application import ApplicationFailed, load
from sprocketmq.errors import ConfigurationError
from system.cli.conftest import Cli, Server

pytestmark = pytest.mark.rocketmq(clock="system")

APPLICATION = """
import contextlib, logging, time
import sprocketmq as rmq

first = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
billing = rmq.PushConsumer("billing", consume_from_where=first)
billing.subscribe("orders")

@billing.on_message
def bill(message):
    print("billing", "VERSION", message.body.decode(), flush=True)
    if message.body == b"slow":
        time.sleep(1)

@contextlib.asynccontextmanager
async def make():
    audit = rmq.AsyncPushConsumer("audit", consume_from_where=first)
    audit.subscribe("orders")

    @audit.on_message
    async def note(message):
        logging.getLogger("app").info("noted %s", message.body.decode())
        if message.body == b"hang":
            time.sleep(600)

    yield [audit]
    print("left", flush=True)
"""


def write(folder: Path, version: str) -> None:
    (folder / "shop_app.py").write_text(APPLICATION.replace("VERSION", version), "utf-8")


def send(rocketmq: Any, body: bytes) -> None:
    with rocketmq.producer("shop") as producer:
        producer.send(rmq.Message("orders", body))


def asked(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_consumers_of_both_kinds_run_with_a_health_check_until_a_signal(
    rocketmq: Any, cli: Cli, tmp_path: Path
) -> None:
    rocketmq.create_topic("orders", queues=2)
    write(tmp_path, "1")
    server = cli.start(
        *("run", "shop_app", "shop_app:make", "--app-dir", str(tmp_path), "-n", rocketmq.namesrv_addr),
        *("--health-port", "0", "--log-format", "json"),
    )
    found = re.fullmatch(r"ready consumers=billing,audit health=(http://\S+) pid=\d+\n", server.ready_line)
    assert found, server.ready_line
    send(rocketmq, b"7")
    assert server._line_of(server.process.stdout) == "billing 1 7\n"
    rocketmq.wait_until(lambda: "noted 7" in server.log_line())
    status, answer = asked(found[1])
    assert (status, answer["healthy"]) == (200, True)
    assert [(one["group"], one["state"], one["healthy"]) for one in answer["consumers"]] == [
        ("billing", "running", True),
        ("audit", "running", True),
    ]
    ended = server.end()
    assert (ended.code, ended.out) == (0, "left\n"), ended
    assert "SIGTERM: stopping" in ended.err
    assert [sum(rocketmq.consumer_offset(group, "orders").values()) for group in ("billing", "audit")] == [1, 1]


def test_a_health_port_that_is_taken_is_refused_before_any_message_is_delivered(
    rocketmq: Any, cli: Cli, tmp_path: Path
) -> None:
    rocketmq.create_topic("orders", queues=2)
    write(tmp_path, "1")
    send(rocketmq, b"7")
    port = rocketmq.namesrv_addr.rpartition(":")[2]
    ended = cli.run("run", "shop_app", "--app-dir", str(tmp_path), "-n", rocketmq.namesrv_addr, "--health-port", port)
    assert (ended.code, ended.out) == (2, "")
    assert "--health-port" in ended.err


def test_a_blocked_loop_is_unhealthy_and_a_second_signal_ends_at_once(rocketmq: Any, cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "1")
    server = cli.start(
        *("run", "shop_app:make", "--app-dir", str(tmp_path), "-n", rocketmq.namesrv_addr, "--health-port", "0")
    )
    send(rocketmq, b"hang")
    rocketmq.wait_until(lambda: "noted hang" in server.log_line())
    found = re.search(r"health=(\S+)", server.ready_line)
    assert found
    status, answer = asked(found[1])
    assert (status, answer["problems"]) == (503, ["an event loop is blocked: no answer within 5 s"])
    server.process.send_signal(signal.SIGTERM)

    def has_ended() -> bool:
        server.process.send_signal(
            signal.SIGINT
        )  # again, because one at the same moment may reach a thread that does not wake the loop's
        return server.process.poll() is not None

    rocketmq.wait_until(has_ended)
    assert server.wait().code in (128 + signal.SIGINT, 128 + signal.SIGTERM)


def test_what_does_not_stop_is_ended_after_the_limit(rocketmq: Any, cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "1")
    server = cli.start(
        *("run", "shop_app:make", "--app-dir", str(tmp_path), "-n", rocketmq.namesrv_addr, "--stop-timeout", "100ms")
    )
    send(rocketmq, b"hang")
    rocketmq.wait_until(lambda: "noted hang" in server.log_line())
    ended = server.end()
    assert ended.code == 1
    assert "not stopped within 0.1 s: ending at once" in ended.err


def test_a_changed_file_starts_the_application_again(rocketmq: Any, cli: Cli, tmp_path: Path) -> None:
    rocketmq.create_topic("orders", queues=2)
    write(tmp_path, "1")
    server = cli.start(*("run", "shop_app", "--reload", "--app-dir", str(tmp_path), "-n", rocketmq.namesrv_addr))
    send(rocketmq, b"7")
    assert server._line_of(server.process.stdout) == "billing 1 7\n"
    saved_ns = (tmp_path / "shop_app.py").stat().st_mtime_ns

    (tmp_path / "shop_app.py").write_text("billing = ", "utf-8")
    assert "shop_app.py changed, the application starts again" in server.log_line()
    rocketmq.wait_until(lambda: "ended with exit code 1; it starts again when a file changes" in server.log_line())

    write(tmp_path, "2")
    os.utime(tmp_path / "shop_app.py", ns=(saved_ns, saved_ns))  # as if it were saved in the same second
    server.wait_ready()
    assert server.ready_line.startswith("ready consumers=billing pid="), server.ready_line
    send(rocketmq, b"8")
    assert server._line_of(server.process.stdout) == "billing 2 8\n"
    ended = server.end()
    assert (ended.code, ended.out) == (0, ""), ended
    assert sum(rocketmq.consumer_offset("billing", "orders").values()) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_message_in_hand_come_to_its_end(
    rocketmq: Any, cli: Cli, tmp_path: Path, number: int
) -> None:
    rocketmq.create_topic("orders", queues=1)
    write(tmp_path, "1")
    server = cli.start(*("run", "shop_app", "--reload", "--app-dir", str(tmp_path), "-n", rocketmq.namesrv_addr))
    send(rocketmq, b"slow")
    assert server._line_of(server.process.stdout) == "billing 1 slow\n"
    ended = server.end(number)
    assert ended.code == 0, ended
    assert sum(rocketmq.consumer_offset("billing", "orders").values()) == 1


def test_an_application_that_ends_itself_is_over(rocketmq: Any, cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "1")
    with (tmp_path / "shop_app.py").open("a", encoding="utf-8") as file:
        file.write("\n@billing.on_message\ndef one(message):\n    billing.shutdown()\n")
    send(rocketmq, b"7")
    server: Server = cli.start("run", "shop_app", "--app-dir", str(tmp_path), "-n", rocketmq.namesrv_addr)
    ended = server.wait()
    assert ended.code == 0
    assert "all consumers were shut down" in ended.err


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import missing_of_the_app", 1, "No module named 'missing_of_the_app'"),
        ("x = 5", 2, "broken_app:x is 5, a PushConsumer, an AsyncPushConsumer, a list of them"),
        ("def x(): raise KeyError('the key')", 1, "in x\n"),
        (
            "import sprocketmq as rmq\nx = rmq.PushConsumer('g', namesrv_addr='127.0.0.1:1')\nx.messages()",
            2,
            "consumer 'g' is iterated by messages(), run_forever would hand them to nobody",
        ),
    ],
)
def test_exit_codes(cli: Cli, tmp_path: Path, text: str, code: int, said: str) -> None:
    (tmp_path / "broken_app.py").write_text(text, "utf-8")
    ended = cli.run("run", "broken_app:x", "--app-dir", str(tmp_path))
    assert ended.code == code, ended
    assert said in ended.err
    assert "sprocketmq/cli" not in ended.err, "no frames of ours"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("named_app:consumr", "module 'named_app' has no 'consumr'; did you mean 'named_app:consumer'?"),
        ("named_app:x.y", "module 'named_app' has no 'x.y'; it is to be a PushConsumer"),
        ("named_app", "module 'named_app' has no consumer; name a function that makes one: 'named_app:make'"),
        ("named_apps:x", "there is no module 'named_apps' in "),
        ("named_app.py:x", "a module and a name in it are allowed: 'named_app:x' with --app-dir ."),
        ("apps/named_app.py", "a module and a name in it are allowed: 'named_app' with --app-dir apps"),
        ("named-app:x", "'named-app:x' is given, a module and a name in it are allowed: 'module:name'"),
    ],
)
def test_what_is_not_there_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, said: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "named_app.py").write_text("consumer = x = 1", "utf-8")
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        load([target], tmp_path)
    sys.modules.pop("named_app", None)


def test_the_traceback_is_the_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    text = "import sprocketmq as rmq\nconsumer = rmq.PushConsumer('billing', consume_thread_count='many')\n"
    (tmp_path / "typed_app.py").write_text(text, "utf-8")
    with pytest.raises(ApplicationFailed):
        load(["typed_app:consumer"], tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[1] for line in lines if line.startswith("  File")] == [" line 2"]
    assert lines[-1].startswith("sprocketmq.errors.ConfigurationError: ")
