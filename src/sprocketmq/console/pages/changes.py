# SPDX-License-Identifier: Apache-2.0
"""Changes of groups and topics: ``group reset``, ``alter --enable | --disable``, ``create`` and ``topic create`` in the browser."""

from __future__ import annotations

import contextlib
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sprocketmq.console.pages.outcome import Outcome, changing, outcome_response
from sprocketmq.console.pages.page import change_of, parts_of
from sprocketmq.console.show.values import moment_ms, whole_number
from sprocketmq.core.quantities import counted
from sprocketmq.errors import ConfigurationError, GroupNotExist, TopicNotExist
from sprocketmq.wire.records.message import MessageQueue

_MOST_QUEUES: Final = 1_024


async def reset_group(request: Request) -> Response:
    form = await change_of(request)
    admin, ask = parts_of(request).cluster.admin, parts_of(request).cluster.ask
    group, topic, to = (str(form.get(name, "")).strip() for name in ("group", "topic", "to"))
    time_ms = 0 if to == "earliest" else None if to == "latest" else moment_ms(to)
    if to != "latest" and time_ms is None:
        why = f"the place is {to!r}; earliest, latest or a time such as 2026-11-22T08:30 are allowed"
        return outcome_response(request, [Outcome(False, "Nothing was changed", why)])

    async def target(queue: MessageQueue) -> int:
        if time_ms is None:
            return await admin.max_offset(queue)
        return await (admin.offset_by_time(queue, time_ms) if time_ms else admin.min_offset(queue))

    async def effect() -> str:
        back = skipped = 0
        progress = await admin.consumer_progress(group, topic)
        for queue in await admin.queues(topic):
            at = progress.get(queue)
            if at is not None and at.consumer_offset >= 0:
                moved = at.consumer_offset - await target(queue)
                back, skipped = back + max(0, moved), skipped + max(0, -moved)
        return f"{counted(back, 'message')} consumed again, {skipped:,} skipped"

    what = f"{group} continues in {topic} at {to}"
    found = await ask("the group's progress", effect(), limits=3)
    if found.value is None:
        return outcome_response(request, [Outcome(False, "Nothing was changed", found.missing or "")])
    effect_text = found.value
    if form.get("dry_run"):
        return outcome_response(request, [Outcome(True, what, effect_text)], dry_run=True)

    async def carry_out() -> str:
        if time_ms is None:
            await admin.skip_accumulated(group, topic)
        else:
            await admin.reset_offset_by_time(group, topic, time_ms)
        return effect_text

    facts = {"group": group, "topic": topic, "to": to}
    return outcome_response(request, [await changing(request, "group reset", carry_out, what=what, **facts)])


async def enable_group(request: Request) -> Response:
    form = await change_of(request)
    group, enable = str(form.get("group", "")), form.get("enable") == "true"

    async def carry_out() -> str:
        brokers = await parts_of(request).cluster.admin.alter_group(group, consume_enable=enable)
        return f"at {', '.join(sorted(brokers))}"

    what = f"{group} may {'consume' if enable else 'consume no more'}"
    done = await changing(request, "group alter", carry_out, what=what, group=group, consume_enable=enable)
    return outcome_response(request, [done])


async def create_group(request: Request) -> Response:
    form = await change_of(request)
    admin, group = parts_of(request).cluster.admin, str(form.get("group", "")).strip()

    async def carry_out() -> str:
        with contextlib.suppress(GroupNotExist):
            await admin.group_config(group)
            raise ConfigurationError(f"group {group!r} exists already")
        await admin.create_group(group)
        return "created on all brokers"

    done = await changing(request, "group create", carry_out, what=f"Group {group}", group=group)
    return outcome_response(request, [done])


async def create_topic(request: Request) -> Response:
    form = await change_of(request)
    admin, topic = parts_of(request).cluster.admin, str(form.get("topic", "")).strip()
    queues = whole_number(str(form.get("queues", "")))

    async def carry_out() -> str:
        if queues is None or not 1 <= queues <= _MOST_QUEUES:
            raise ConfigurationError(f"queues is {form.get('queues')!r}; 1 to {_MOST_QUEUES:,} are allowed")
        with contextlib.suppress(TopicNotExist):
            await admin.topic_config(topic)
            raise ConfigurationError(f"topic {topic!r} exists already")
        await admin.create_topic(topic, queues=queues)
        return f"created with {counted(queues, 'queue')} on each broker"

    done = await changing(request, "topic create", carry_out, what=f"Topic {topic}", topic=topic, queues=queues)
    return outcome_response(request, [done])
