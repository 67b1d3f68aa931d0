# SPDX-License-Identifier: Apache-2.0
"""Waits for another event loop end if that loop does, whose futures nothing completes any more."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from sprocketmq.client.consume import forgotten_members
from sprocketmq.client.listen import listener_call
from sprocketmq.client.listen.listener_call import Listener
from sprocketmq.client.remoting.outages import Outages
from sprocketmq.errors import ClosedError
from sprocketmq.net.process.clock import ManualClock


class OtherLoop:
    """A loop on a thread; ``close`` ends it as a program does that cancels no task."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(20)
        self.loop.close()


def test_a_coroutine_that_a_listener_returns_is_not_waited_for_after_its_loop(monkeypatch):
    monkeypatch.setattr(listener_call, "_WAIT_S", 0.01)
    other, begun = OtherLoop(), threading.Event()

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    instance = SimpleNamespace(cluster=SimpleNamespace(outages=Outages()))
    consumer: Any = SimpleNamespace(
        hooks=SimpleNamespace(consume=[]), name="delays", clock=ManualClock(), instance=instance
    )
    service: Any = SimpleNamespace(
        read_answer=lambda answer, context: ("failed", "is awaitable"),
        failed="failed",
        consequence=("", ""),
        last_try=None,
    )

    async def made() -> Listener:
        return Listener(service, consumer, lambda messages, context: never())

    call = asyncio.run_coroutine_threadsafe(made(), other.loop).result(20)
    message = SimpleNamespace(topic="flights", message_id="1", reconsume_times=0)
    batch: Any = SimpleNamespace(messages=[message], context=SimpleNamespace(message_queue="q"), failure=None)
    worker = threading.Thread(target=call.run, args=(batch,), daemon=True)
    worker.start()
    assert begun.wait(20)
    other.close()
    worker.join(20)
    assert isinstance(batch.failure, ClosedError)


def test_a_forgotten_member_on_a_loop_that_ends_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(forgotten_members, "_WAIT_S", 0.01)
    other = OtherLoop()

    async def shutdown() -> None:
        other.loop.stop()
        await asyncio.Event().wait()

    member: Any = SimpleNamespace(_loop=other.loop, shutdown=shutdown)
    asyncio.run(asyncio.wait_for(forgotten_members._shut_down(member), 20))
    other.thread.join(20)
    other.loop.close()
