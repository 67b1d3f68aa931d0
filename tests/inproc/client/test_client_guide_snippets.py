# SPDX-License-Identifier: Apache-2.0
"""Programs in the guides run: each by itself, with the names that its page takes for granted, against a broker that has messages."""

from __future__ import annotations

import ast
import asyncio
import collections
import inspect
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import prometheus_client
import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from walked_page import Fence, fences_of

GUIDES = Path(__file__).resolve().parents[3] / "docs/guides"
PAGES = ("producing", "consuming", "pulling", "admin", "watching", "security", "replay")
FENCES = [
    pytest.param(fence, id=f"{page}:{fence.line}")
    for page in PAGES
    for fence in fences_of(GUIDES / f"{page}.md")
    if fence.language == "python"
]
FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
# A test cannot wait for ever, nor listen at a port that others use.
HERE = {"while True:": "for _ in range(2):", "run_forever()": "start()", "serve(9464)": "serve(0)"}


class Reached(Exception):
    """A program got as far as its own ``handle``."""


@pytest.fixture(scope="module")
def mq() -> Iterator[EmbeddedRocketMQ[Any]]:
    with EmbeddedRocketMQ(clock="system") as mq, rmq.Admin(namesrv_addr=mq.namesrv_addr) as admin:
        for topic in ("flights", "prices", "payments"):
            mq.create_topic(topic, queues=2)
        admin.create_group("delays")
        with mq.producer("towers") as producer:
            producer.send_batch([rmq.Message("flights", b"1", tags="UA", keys="N14228") for _ in range(4)])
        yield mq


@pytest.fixture
def names(mq: EmbeddedRocketMQ[Any], request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """What the pages take for granted, as far as the program names it."""
    fence: Fence = request.getfixturevalue("fence")
    group = f"guide-{abs(hash((fence.text, fence.line)))}"

    def consumer() -> rmq.PushConsumer | rmq.AsyncPushConsumer:
        kind = rmq.AsyncPushConsumer if "await " in fence.text else rmq.PushConsumer
        made = kind(group, namesrv_addr=mq.namesrv_addr, consume_from_where=FIRST)
        made.subscribe("prices" if "reply" in fence.text else "flights")
        if ".statistics" in fence.text:
            made.on_message(lambda message: None)
            made.start()
        return made

    async def answers() -> bool:
        return True

    async def handle(message: object) -> None:
        raise Reached

    makers = {
        "admin": lambda: rmq.Admin(namesrv_addr=mq.namesrv_addr).__enter__(),
        "consumer": consumer,
        "message_id": lambda: a_dead_letter(mq),
        "producer": lambda: rmq.Producer(group, namesrv_addr=mq.namesrv_addr),
        "tower": lambda: SimpleNamespace(answers=answers if "await " in fence.text else lambda: True),
        "handle": lambda: handle,
    }
    given: dict[str, Any] = {}
    try:
        for name, make in makers.items():
            if re.search(rf"(?<![.\w]){name}\b", fence.text):
                given[name] = make()
        given |= {
            "asyncio": asyncio,
            "collections": collections,
            "prometheus_client": prometheus_client,
            "rmq": rmq,
            "time": time,
        }
        given |= {
            "KNOWN_CARRIERS": {"UA"},
            "alert": lambda *_: None,
            "bodies": [b"1"] * 100,
            "yesterday_ms": 1_700_000_000_000,
        }
        given |= {"db": SimpleNamespace(find_payment=lambda key: key, insert_payment=lambda key: None)}
        yield given
    finally:  # also what was made before another one failed
        shut_down(given)


def shut_down(given: dict[str, Any]) -> None:
    for value in reversed(given.values()):
        if callable(getattr(value, "shutdown", None)):
            done = value.shutdown()
            if inspect.isawaitable(done):
                asyncio.run(ended(done))
        elif isinstance(value, rmq.ClientMetrics):
            value.close()


async def ended(done: Any) -> None:
    await done


def a_dead_letter(mq: EmbeddedRocketMQ[Any]) -> str:
    """Of a message of its own: programs of the guides are in group delays, too, and may have consumed the others."""
    with mq.producer("towers") as producer:
        producer.send(rmq.Message("flights", b"1", tags="XX", keys="N14228"))
    consumer = rmq.PushConsumer("delays", namesrv_addr=mq.namesrv_addr, consume_from_where=FIRST)
    consumer.subscribe("flights")

    @consumer.on_message
    def refuse(message: rmq.MessageExt) -> None:
        raise rmq.DeadLetter("no such carrier")

    with consumer:
        mq.wait_until(lambda: mq.messages("%DLQ%delays"))
    return mq.messages("%DLQ%delays")[0].message_id


@pytest.fixture
def answering(mq: EmbeddedRocketMQ[Any], request: pytest.FixtureRequest) -> Iterator[None]:
    """Somebody who answers requests, where a program makes one."""
    fence: Fence = request.getfixturevalue("fence")
    if ".request(" not in fence.text:
        yield
        return
    with mq.producer("answers") as producer:
        consumer = rmq.PushConsumer("answers", namesrv_addr=mq.namesrv_addr)
        consumer.subscribe("prices")
        consumer.on_message(lambda message: producer.reply(message, b"1.08") and None)
        with consumer:
            mq.wait_until(lambda: len(consumer.assigned_queues) >= 2)
            yield


@pytest.mark.parametrize("fence", FENCES)
def test_a_program_of_a_guide_runs(fence, names, answering, mq, tmp_path, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", mq.namesrv_addr)
    monkeypatch.chdir(tmp_path)
    text = fence.text.replace("127.0.0.1:9876", mq.namesrv_addr)
    for there, here in HERE.items():
        text = text.replace(there, here)
    code = compile(text, f"line {fence.line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:

        async def run() -> None:
            await asyncio.wait_for(FunctionType(code, names)(), 30)

        if "handle(" in text:
            with pytest.raises(Reached):
                asyncio.run(run())
        else:
            asyncio.run(run())
    else:
        exec(code, names)  # noqa: S102 - it is ours


def test_the_test_of_the_guide_passes(tmp_path):
    """docs/guides/testing.md: its test, run as its reader runs it."""
    (fence,) = (fence for fence in fences_of(GUIDES / "testing.md") if fence.language == "python")
    (tmp_path / "test_orders.py").write_text(fence.text, "utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "test_orders.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "1 passed" in done.stdout, done.stdout


def test_there_are_many():
    assert len(FENCES) >= 22
