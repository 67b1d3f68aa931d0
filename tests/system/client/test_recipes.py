# SPDX-License-Identifier: Apache-2.0
"""The recipes run as their pages say: FastAPI, a worker as a service and in a container, a Django command, logs as JSON."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from system.packages.test_packages import environment, packages, wheel

__all__ = ["packages", "wheel"]  # fixtures

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
WORKER = EXAMPLES / "worker"
NOBODY = 65534
pytestmark = pytest.mark.rocketmq(clock="system")


class Program:
    """A program that runs, and the lines that it has printed (stdout and stderr together)."""

    def __init__(self, command: list[str], cwd: Path, user: int | None = None, **environment: str) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            user=user,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def found(self, pattern: str) -> re.Match[str] | None:
        if self.process.poll() is not None:
            raise AssertionError("it ended:\n" + "\n".join(self.lines))
        return re.search(pattern, "\n".join(self.lines))

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self._reading.join(60)
        return code


@contextlib.contextmanager
def running(command: list[str], cwd: Path, user: int | None = None, **environment: str) -> Iterator[Program]:
    program = Program(command, cwd, user, **environment)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.process.kill()
        program.process.wait()
        assert program.process.stdout is not None
        program._reading.join(60)
        program.process.stdout.close()


def asked(url: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def progress(rocketmq: EmbeddedRocketMQ) -> int:
    return sum(rocketmq.consumer_offset("billing", "orders").values())


def send_order(rocketmq: EmbeddedRocketMQ, **order: Any) -> str:
    with rocketmq.producer("shop", value_serializer=rmq.json_serializer) as producer:
        return producer.send(producer.message("orders", order)).message_id


def test_fastapi_sends_consumes_and_ends_with_its_application(rocketmq):
    rocketmq.create_topic("orders", queues=2)
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "fastapi_orders:app", "--port", "0"]
    with running(command, ROOT, NAMESRV_ADDR=rocketmq.namesrv_addr) as program:
        rocketmq.wait_until(lambda: program.found(r"running on (http://\S+)"))
        found = program.found(r"running on (http://\S+)")
        assert found is not None
        url = found[1]
        status, answer = asked(f"{url}/orders", {"id": 7, "total": 12.5})
        assert (status, len(answer["message_id"])) == (202, 32)
        assert asked(f"{url}/orders", {"id": "seven"})[0] == 422
        rocketmq.wait_until(lambda: asked(f"{url}/orders/7") == (200, {"id": 7, "billed": 12.5}))
        assert asked(f"{url}/orders/8")[0] == 404
        assert asked(f"{url}/healthz") == (200, {"healthy": True, "state": "running", "problems": []})
        assert program.end() in (0, -signal.SIGTERM), program.lines
    assert "Application shutdown complete." in "\n".join(program.lines)
    assert progress(rocketmq) == 1, "written at the shutdown"


def test_the_unit_of_systemd_runs_the_worker(rocketmq, tmp_path):
    rocketmq.create_topic("orders", queues=2)
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(WORKER / "billing.service")
    service = unit["Service"]
    assert service["ExecStart"].startswith("/opt/billing/bin/sprocketmq run worker:consumer --app-dir /opt/billing ")
    text = (WORKER / "billing.service").read_text("utf-8")
    text = text.replace("/opt/billing/bin", str(Path(sys.executable).parent))
    text = text.replace("/opt/billing", str(WORKER)).replace("--health-port 8080", "--health-port 0")
    (tmp_path / "billing.service").write_text(text, "utf-8")
    if verify := shutil.which("systemd-analyze"):
        said = subprocess.run(
            [verify, "verify", tmp_path / "billing.service"], capture_output=True, text=True, timeout=60
        )
        assert "billing.service" not in said.stderr, said.stderr
    (line,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
    environment = dict(one.split("=", 1) for one in re.findall(r"^Environment=(.+)$", text, re.MULTILINE))
    environment |= {"NAMESRV_ADDR": rocketmq.namesrv_addr}
    assert float(service["TimeoutStopSec"]) >= 15
    good = send_order(rocketmq, id=7, total=12.5)
    send_order(rocketmq, id=8, total=-1)
    broken = send_order(rocketmq, id=9)
    with running(shlex.split(line), tmp_path, **environment) as program:
        rocketmq.wait_until(lambda: program.found('"billed"') and program.found("KeyError"))
        rocketmq.wait_until(lambda: rocketmq.messages("%DLQ%billing"))
        code = program.end()
    logged = [json.loads(one) for one in program.lines if not one.startswith("ready ")]
    assert code == 0, program.lines
    (billed,) = (one for one in logged if one["message"] == "billed")
    assert (billed["order"], billed["message_id"], billed["try"]) == (7, good, 1)
    (failed,) = (one for one in logged if "KeyError" in one["message"])
    assert (failed["level"], failed["logger"]) == ("WARNING", "sprocketmq.client")
    assert (failed["consumer_group"], failed["topic"], failed["message_ids"]) == ("billing", "orders", [broken])
    assert (failed["reconsume_times"], "Traceback" in failed["exception"]) == (0, True)
    assert progress(rocketmq) == 3


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that others than its owner can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="sprocketmq-worker-") as folder:
        yield Path(folder)


def _without_rights(home: Path) -> int:
    """Open ``home`` to a user without rights, with a Python that this user may run: that of root may lie where nobody else comes."""
    home.chmod(0o755)
    python = home / "venv/bin/python"
    others = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    for interpreter in (python.resolve(), others):
        readable = all(folder.stat().st_mode & 0o005 for folder in interpreter.parents) and interpreter.exists()
        if readable:
            python.unlink()
            python.symlink_to(interpreter)
            (home / "venv/pyvenv.cfg").write_text(
                f"home = {interpreter.parent}\ninclude-system-site-packages = false\n"
            )
            return NOBODY
    pytest.skip("no Python of this version can be run by others than root here")


def test_the_image_s_commands_work_in_an_empty_environment_as_somebody_without_rights(rocketmq, wheel, home):
    """There may be no container engine here, so the Dockerfile's commands run in an environment that has the wheel and nothing else."""
    rocketmq.create_topic("orders", queues=2)
    dockerfile = (WORKER / "Dockerfile").read_text("utf-8")
    steps = [line.split(" ", 1) for line in dockerfile.splitlines() if line and line[0] != "#"]
    assert [word for word, _ in steps] == [
        "FROM",
        "RUN",
        "WORKDIR",
        "RUN",
        "COPY",
        "USER",
        "ENV",
        "HEALTHCHECK",
        "ENTRYPOINT",
    ]
    values = dict(steps)
    assert values["USER"].isdigit(), "a number: Kubernetes' runAsNonRoot cannot judge a name"
    assert int(values["USER"]) > 0
    environment(home / "venv", wheel, "cli")
    for name in re.findall(r"\w+\.py", values["COPY"]):
        shutil.copy(WORKER / name, home)
    user = _without_rights(home) if os.getuid() == 0 else None
    entry = json.loads(values["ENTRYPOINT"])
    check = json.loads(values["HEALTHCHECK"].partition("CMD ")[2])
    entry[0], check[0] = (str(home / one[0]) for one in (entry, check))
    entry[entry.index("8080")] = "0"
    with running(entry, home, user, NAMESRV_ADDR=rocketmq.namesrv_addr) as program:
        rocketmq.wait_until(lambda: program.found(r"ready .* health=http://127.0.0.1:(\d+)/"))
        found = program.found(r"health=http://127.0.0.1:(\d+)/")
        assert found is not None

        def healthy() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                check, cwd=home, user=user, env={"HEALTH_PORT": found[1]}, capture_output=True, text=True, timeout=60
            )

        rocketmq.wait_until(lambda: healthy().returncode == 0)
        send_order(rocketmq, id=7, total=12.5)
        rocketmq.wait_until(lambda: program.found('"billed"'))
        assert program.end() == 0, program.lines
        assert healthy().returncode == 1
        assert "the worker does not answer" in healthy().stderr
    assert progress(rocketmq) == 1


def test_the_command_of_django_bills_each_order_once(rocketmq, tmp_path):
    rocketmq.create_topic("orders", queues=2)
    database = tmp_path / "orders.sqlite3"
    manage = [sys.executable, str(EXAMPLES / "django_orders/manage.py")]
    given = {"DATABASE": str(database), "NAMESRV_ADDR": rocketmq.namesrv_addr}
    made = subprocess.run(
        [*manage, "migrate", "--run-syncdb"], env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 0, made.stderr
    for number in (7, 8, 7):
        send_order(rocketmq, id=number, total=number * 1.5)
    with running([*manage, "consume_orders", "--threads", "1"], tmp_path, **given) as program:
        rocketmq.wait_until(lambda: len([line for line in program.lines if line.startswith("order ")]) == 3)
        assert program.end() == 0, program.lines
    assert sorted(line for line in program.lines if line.startswith("order ")) == [
        "order 7 billed",
        "order 7 was billed before",
        "order 8 billed",
    ]
    with contextlib.closing(sqlite3.connect(database)) as connection:
        bills = sorted(connection.execute('select "order", total from orders_bill'))
    assert bills == [(7, 10.5), (8, 12.0)]
    assert progress(rocketmq) == 3
