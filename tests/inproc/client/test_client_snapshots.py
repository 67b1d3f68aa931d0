# SPDX-License-Identifier: Apache-2.0
"""What a client shows of itself: values as they are at one moment, never a part that its loop goes on changing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pytest
from recorder import QUEUE, Held, Recorder, send_all

import sprocketmq as rmq
from sprocketmq.core.consume.polled_queues import PolledQueues
from sprocketmq.core.produce.route_table import RouteTable
from sprocketmq.core.replay.decision_record import MACHINES

LIVE = (*(recorded.machine for recorded in MACHINES.values()), PolledQueues, RouteTable)


def _parts(shown: Any) -> Iterator[Any]:
    """What is shown and all that it contains."""
    yield shown
    if isinstance(shown, Mapping):
        shown = [*shown.keys(), *shown.values()]
    if isinstance(shown, Collection) and not isinstance(shown, str | bytes | rmq.MessageQueue):
        for part in shown:
            yield from _parts(part)


def _shown(client: Any) -> Iterator[tuple[str, Any]]:
    """Each public property and its value."""
    for name in dir(type(client)):
        if not name.startswith("_") and isinstance(getattr(type(client), name), property):
            yield name, getattr(client, name)


@pytest.mark.parametrize("face", ["blocking", "async"])
def test_no_client_returns_its_own_mutable_parts(rocketmq, producer, consumers, face):
    rocketmq.create_topic("flights", queues=2)
    push = consumers(Recorder())
    send_all(producer, ["0", "1"])
    with rocketmq.pull_consumer("readers") as pull:
        pull.subscribe("flights")
        rocketmq.wait_until(lambda: len(push.process_queues) >= 2 and len(pull.assigned_queues) == 2)
        for client in (push, pull, producer):
            shown = dict(_shown(client if face == "blocking" else client._async))  # type: ignore[attr-defined]
            assert shown
            live = [name for name, value in shown.items() if any(isinstance(part, LIVE) for part in _parts(value))]
            assert live == []


def test_a_snapshot_from_another_thread_does_not_change_and_moves_no_progress(rocketmq, producer, consumers):
    held = Held(b"0")
    send_all(producer, [str(n) for n in range(5)])
    consumer = consumers(held, consume_thread_count=2)
    assert held.running.wait(20)
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count == 1)
    seen = consumer.process_queues[QUEUE]
    assert (seen.min_offset, seen.max_offset, seen.commit_offset, seen.span, seen.max_offset_seen) == (0, 0, 0, 0, 4)
    held.release.set()
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count == 0)
    assert (seen.count, seen.commit_offset) == (1, 0)
    assert consumer.process_queues[QUEUE].commit_offset == 5
