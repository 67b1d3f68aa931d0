# SPDX-License-Identifier: Apache-2.0
"""The examples run as they are written, against a broker that NAMESRV_ADDR names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sprocketmq.testing import EmbeddedRocketMQ

EXAMPLES = Path(__file__).parents[3] / "examples"


def _start(rocketmq: EmbeddedRocketMQ, name: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "NAMESRV_ADDR": rocketmq.namesrv_addr, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / name)],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _run(rocketmq: EmbeddedRocketMQ, name: str) -> str:
    process = _start(rocketmq, name)
    try:
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    return out


@pytest.mark.rocketmq(clock="system")
def test_producer_and_consumer_examples_work_together(rocketmq):
    assert _run(rocketmq, "quickstart_producer.py").count("SEND_OK") == 10
    process = _start(rocketmq, "quickstart_consumer.py")
    try:
        assert process.stdout is not None
        lines = {process.stdout.readline().strip() for _ in range(10)}
        process.terminate()
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert lines == {f"hello {n} greeting ['hello-{n}'] try 1" for n in range(10)}


@pytest.mark.rocketmq(clock="system")
def test_the_example_of_orders_bills_three_and_gives_up_one(rocketmq):
    rocketmq.create_topic("orders", queues=2)
    lines = _run(rocketmq, "orders.py").splitlines()
    assert sorted(lines) == [
        "billed 0: 0.0",
        "billed 1: 10.0",
        "billed 2: 20.0",
        "given up order-7: Expected `int`, got `str` - at `$.id`",
    ]
    rocketmq.wait_until(lambda: rocketmq.messages("%DLQ%billing"))
    reason = rocketmq.messages("%DLQ%billing")[0].properties["RETRY_REASON"]
    assert "of topic 'orders': its body of 15 bytes cannot be deserialized: ValidationError" in reason


@pytest.mark.rocketmq(clock="system")
def test_the_orderly_example_shows_each_order_in_order(rocketmq):
    lines = [line.split()[:2] for line in _run(rocketmq, "orderly.py").splitlines()]
    for order in ("order-1", "order-2", "order-3"):
        assert [step for name, step in lines if name == order] == ["created", "paid", "shipped", "delivered"]


@pytest.mark.rocketmq(clock="system")
def test_the_watched_example_prints_its_messages_trace(rocketmq):
    first, *traced = _run(rocketmq, "watched.py").splitlines()
    assert first.endswith("/metrics served the metrics")
    assert [line.split()[:3] for line in traced] == [
        ["Pub", "ops", "ok"],
        ["SubBefore", "delays", "ok"],
        ["SubAfter", "delays", "ok"],
    ]


@pytest.mark.rocketmq(clock="system")
def test_the_asyncio_example_stores_a_thousand(rocketmq):
    assert "1000 messages stored" in _run(rocketmq, "asyncio_producer.py")


@pytest.mark.rocketmq(clock="system")
def test_the_example_with_a_loop_of_its_own_bills_all_and_ends(rocketmq):
    lines = _run(rocketmq, "own_loop.py").splitlines()
    assert sorted(lines) == ["billed order-0", "billed order-1", "billed order-2", "command: stop"]
