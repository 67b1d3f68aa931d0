# SPDX-License-Identifier: Apache-2.0
"""Servers and libraries that run a program's code in a way of their own, in an environment of their own (scripts/hosts-environment)."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = [pytest.mark.rocketmq(clock="system"), pytest.mark.nightly]
HERE = Path(__file__).parent
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def python() -> str:
    made = subprocess.run([str(ROOT / "scripts/hosts-environment")], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"the environment of the hosts cannot be made: {made.stderr.strip()[-300:]}")
    return made.stdout.strip()


@contextmanager
def running(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=HERE, env=os.environ | environment, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("worker", "application", "answer"),
    [
        ("sync", "wsgi", "SEND_OK"),
        ("gthread", "wsgi", "SEND_OK"),
        ("uvicorn_worker.UvicornWorker", "asgi", "SEND_OK"),
        ("gevent", "wsgi", "refused: gevent "),
    ],
)
def test_workers_of_gunicorn(rocketmq, python, tmp_path, worker, application, answer):
    rocketmq.create_topic("hosts")
    log = tmp_path / "log"
    command = [python, "-m", "gunicorn", "-k", worker, "-w", "2", "-b", "127.0.0.1:0", f"host_app:{application}"]
    with running(command, log, NAMESRV_ADDR=rocketmq.namesrv_addr):
        rocketmq.wait_until(lambda: "Listening at: http" in log.read_text() and log.read_text().count("Booting") == 2)
        found = re.search(r"Listening at: (http://\S+)", log.read_text())
        assert found is not None
        for _ in range(5):
            with urllib.request.urlopen(found[1], timeout=60) as got:
                assert got.read().decode().startswith(answer)
    assert log.read_text().count("Booting") == 2, "no worker was killed"


@pytest.mark.parametrize(
    ("pool", "answer"), [("prefork", "SEND_OK"), ("threads", "SEND_OK"), ("gevent", "refused: gevent ")]
)
def test_pools_of_celery(rocketmq, python, tmp_path, pool, answer):
    rocketmq.create_topic("hosts")
    environment = {"NAMESRV_ADDR": rocketmq.namesrv_addr, "HOST_FOLDER": str(tmp_path)}
    command = [python, "-m", "celery", "-A", "host_app", "worker", "-P", pool, "-c", "2", "--without-mingle"]
    with running([*command, "--without-gossip"], tmp_path / "log", **environment):
        call = "from host_app import app\nprint(*[app.send_task('send').get(timeout=60) for _ in range(3)], sep='\\n')"
        asked = subprocess.run(
            [python, "-c", call], cwd=HERE, env=os.environ | environment, capture_output=True, text=True, timeout=90
        )
    assert asked.returncode == 0, asked.stderr
    assert [line.startswith(answer) for line in asked.stdout.splitlines()] == [True] * 3


NESTED = """
import asyncio, nest_asyncio
nest_asyncio.apply()
import sprocketmq as rmq, host_app

async def main():
    print(host_app.send())
    async def send():
        async with rmq.AsyncProducer("nested", namesrv_addr=host_app.ADDRESS) as producer:
            return (await producer.send(rmq.Message("hosts", b"1"))).status
    print(asyncio.get_running_loop().run_until_complete(send()))

asyncio.run(main())
"""
SCHEDULED = """
import queue
from apscheduler.schedulers.background import BackgroundScheduler
import host_app

answers = queue.Queue()
scheduler = BackgroundScheduler()
scheduler.add_job(lambda: answers.put(host_app.send()), "interval", seconds=0.1, max_instances=3)
scheduler.start()
print(answers.get(timeout=60), answers.get(timeout=60), sep="\\n")
scheduler.shutdown()
"""


@pytest.mark.parametrize(
    ("program", "answers"),
    [
        (
            "from gevent import monkey; monkey.patch_all()\nimport host_app; print(host_app.send())",
            ["refused: gevent "],
        ),
        (
            "from gevent import monkey; monkey.patch_all(thread=False)\nimport host_app; print(host_app.send())",
            ["SEND_OK"],
        ),
        ("import eventlet; eventlet.monkey_patch()\nimport host_app; print(host_app.send())", ["refused: eventlet "]),
        ("import eventlet; eventlet.monkey_patch(thread=False)\nimport host_app; print(host_app.send())", ["SEND_OK"]),
        (NESTED, ["SEND_OK", "SEND_OK"]),
        (SCHEDULED, ["SEND_OK", "SEND_OK"]),
    ],
    ids=["gevent", "gevent without threads", "eventlet", "eventlet without threads", "nest_asyncio", "APScheduler"],
)
def test_programs(rocketmq, python, program, answers):
    rocketmq.create_topic("hosts")
    done = subprocess.run(
        [python, "-W", "ignore", "-c", program],
        cwd=HERE,
        env=os.environ | {"NAMESRV_ADDR": rocketmq.namesrv_addr},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(answers)
    assert all(line.startswith(answer) for line, answer in zip(lines, answers, strict=True)), lines
