# SPDX-License-Identifier: Apache-2.0
"""What the cluster holds and says after a stage, asked by others than those who took part in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sprocketmq as rmq
from sprocketmq.cli.demo.children import Child
from sprocketmq.cli.demo.reports import TOPIC

if TYPE_CHECKING:
    from sprocketmq.cli.frame.target import Target

_PATIENCE_MS: Final = 10_000


async def read_flights(target: Target) -> list[rmq.MessageExt]:
    """All messages of the topic, to which nobody sends any more."""
    async with rmq.AsyncAdmin(**target.options()) as admin:
        stats = await admin.topic_stats(TOPIC)
    wanted = sum(held.max_offset - held.min_offset for held in stats.values())
    messages: list[rmq.MessageExt] = []
    async with rmq.AsyncPullConsumer(
        "flights-auditor",
        **target.options(),
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        auto_commit=False,
        pull_batch_size=32,
    ) as auditor:
        await auditor.assign(stats)
        while len(messages) < wanted and (more := await auditor.poll(4_096, timeout_ms=_PATIENCE_MS)):
            messages += more
    return messages


async def ask_lag(group: str, target: Target, log: Path) -> int | str:
    """The lag of ``group`` as reported by ``sprocketmq lag`` in a separate process, or its error text."""
    words = f"lag {group} --topic {TOPIC} -n {target.namesrv_addr} --json" + (" --tls" if target.tls else "")
    keys = {
        "ROCKETMQ_ACCESS_KEY": target.access_key or "",
        "ROCKETMQ_SECRET_KEY": target.secret_key or "",
        "ROCKETMQ_SECRET_KEY_FILE": target.secret_key_file or "",
        "ROCKETMQ_TLS_CA": target.tls_ca or "",
    }
    child = await Child.start(log, "sprocketmq.cli", *words.split(), environment=keys)
    try:
        answer = await child.stdout.read()
        return child.said() if await child.ended() else int(json.loads(answer)["lag"])
    finally:
        await child.stop()
