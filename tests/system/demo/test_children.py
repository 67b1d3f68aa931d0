# SPDX-License-Identifier: Apache-2.0
"""The demo's child processes, when the demo is interrupted at a bad moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from test_demo import processes_of

from sprocketmq.cli.demo.children import Children
from sprocketmq.cli.demo.reports import Deliveries, Options
from sprocketmq.cli.frame.target import Target


async def test_an_interrupt_at_any_step_of_a_start_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_OF", str(tmp_path))

    async def two_members() -> None:
        async with Children("push_member", Deliveries, tmp_path) as members:
            for member in (1, 2):
                await members.start(f"push-{member}", Options(Target("127.0.0.1:1"), member, 2))
            started.set()
            async for _ in members.reports(60):
                pass

    steps, started = 0, asyncio.Event()
    while not started.is_set():
        task = asyncio.create_task(two_members())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert processes_of(tmp_path) == []
        steps += 1
    assert steps > 2
