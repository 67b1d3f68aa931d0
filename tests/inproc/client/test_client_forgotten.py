# SPDX-License-Identifier: Apache-2.0
"""A notebook cell that is run twice: the consumer that no variable refers to any more is not left as a hidden member of the group."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
from recorder import send_all

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

CELL = compile(
    textwrap.dedent("""
        consumer = rmq.PushConsumer(group, namesrv_addr=namesrv_addr, clock=clock, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
        consumer.subscribe("flights")

        @consumer.on_message
        def handle(message, generation=generation):
            seen.append((generation, message.body.decode()))

        consumer.start()
    """),
    "<cell 1>",
    "exec",
)


class Notebook:
    """A namespace in which cells run."""

    def __init__(self, rocketmq: EmbeddedRocketMQ) -> None:
        self.names: dict[str, Any] = {
            "rmq": rmq, "group": "delays", "namesrv_addr": rocketmq.namesrv_addr, "clock": rocketmq.clock, "seen": [],
        }  # fmt: skip
        self.made: list[rmq.PushConsumer] = []

    @property
    def seen(self) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = self.names["seen"]
        return found

    def run(self, generation: int, **names: Any) -> None:
        self.names.update(names, generation=generation)
        exec(CELL, self.names)  # noqa: S102 - it is our own text


@pytest.fixture
def notebook(rocketmq: EmbeddedRocketMQ) -> Iterator[Notebook]:
    made = Notebook(rocketmq)
    yield made
    with rmq.Admin(namesrv_addr=rocketmq.namesrv_addr) as admin:
        if (consumer := made.names.pop("consumer", None)) is not None:
            consumer.shutdown()
        rocketmq.wait_until(lambda: admin.consumer_connection("delays") is None)


def members(rocketmq: EmbeddedRocketMQ, group: str = "delays") -> int:
    with rmq.Admin(namesrv_addr=rocketmq.namesrv_addr) as admin:
        connection = admin.consumer_connection(group)
        return 0 if connection is None else len(connection.connection_set)


def test_in_a_notebook_the_second_run_replaces_the_first(rocketmq, producer, notebook, caplog, monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    rocketmq.create_topic("flights", queues=4)
    for generation in (1, 2, 3):
        notebook.run(generation)
        assert members(rocketmq) == 1
        send_all(producer, [f"{generation}-{n}" for n in range(8)])
        rocketmq.wait_until(lambda generation=generation: len(notebook.seen) == 8 * generation)
    assert {generation for generation, _ in notebook.seen} == {1, 2, 3}
    assert all(body.startswith(f"{generation}-") for generation, body in notebook.seen), (
        "the newest listener has them all"
    )
    assert caplog.text.count("the consumer made at <cell 1>:2 still ran, and no variable refers to it any more") == 2


def test_in_a_program_a_warning_is_logged_and_nothing_is_shut_down(rocketmq, caplog, monkeypatch):
    monkeypatch.delattr(sys, "ps1", raising=False)
    rocketmq.create_topic("flights", queues=4)
    notebook = Notebook(rocketmq)
    notebook.run(1)
    client_id = notebook.names["consumer"].client_id
    notebook.run(2)
    try:
        assert members(rocketmq) == 2
        assert (
            "this process runs a consumer of the group already, made at <cell 1>:2, to which no variable refers"
            in caplog.text
        )
    finally:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
        notebook.run(3)
        notebook.names["consumer"].shutdown()
    assert members(rocketmq) == 0, "the first one and the second one were replaced"
    assert client_id


def test_a_consumer_with_a_reference_is_left_alone(rocketmq, notebook, caplog, monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    rocketmq.create_topic("flights", queues=4)
    notebook.run(1)
    held = [notebook.names["consumer"]]
    notebook.run(2)
    own_async = held.pop()._async  # the blocking one is gone, and something refers to what it was made of
    notebook.run(3)
    assert members(rocketmq) == 2
    assert caplog.text.count("no variable refers") == 1, "the second one"

    def closure(of: object = own_async) -> object:
        return of

    del own_async
    notebook.run(4)
    assert members(rocketmq) == 2, "a closure holds the first"
    assert closure() is not None
    del closure
    notebook.run(5)
    assert members(rocketmq) == 1


def test_a_consumer_of_another_group_is_left_alone(rocketmq, notebook, caplog, monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    rocketmq.create_topic("flights", queues=4)
    notebook.run(1, group="arrivals")
    notebook.run(2, group="delays")
    assert (members(rocketmq, "arrivals"), members(rocketmq, "delays")) == (1, 1)
    assert "no variable refers" not in caplog.text
    delays = notebook.names["consumer"]
    notebook.run(3, group="arrivals")
    assert members(rocketmq, "arrivals") == 1
    notebook.names["consumer"].shutdown()
    notebook.names["consumer"] = delays


def test_consumers_on_a_loop_are_looked_at_too(rocketmq, caplog, monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    rocketmq.create_topic("flights", queues=4)

    def made() -> rmq.AsyncPushConsumer:
        consumer = rocketmq.async_push_consumer("delays")
        consumer.subscribe("flights")
        consumer.on_message(lambda message: None)
        return consumer

    async def run() -> None:
        for _ in range(3):
            consumer = made()
            await consumer.start()
        assert await asyncio.to_thread(members, rocketmq) == 1
        second = made()
        await second.start()
        assert await asyncio.to_thread(members, rocketmq) == 2, "two variables, two members"
        await consumer.shutdown()
        await second.shutdown()

    asyncio.run(run())
    assert caplog.text.count("no variable refers") == 2


@pytest.mark.rocketmq(clock="system")
def test_in_a_real_session_of_python(rocketmq):
    rocketmq.create_topic("flights", queues=4)
    cell = textwrap.dedent("""
        consumer = rmq.PushConsumer("delays"); consumer.subscribe("flights"); _ = consumer.on_message(print)

        consumer.start()

        print(len(rmq.Admin().consumer_connection("delays").connection_set), "member")

    """)
    session = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=f"import sprocketmq as rmq\n{cell}{cell}consumer.shutdown()\n",
        env={**os.environ, "NAMESRV_ADDR": rocketmq.namesrv_addr},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert session.stdout.count("1 member") == 2, session.stderr
    assert (
        "group delays: the consumer made at <stdin>:1 still ran, and no variable refers to it any more"
        in session.stderr
    )
