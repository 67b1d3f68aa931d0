# SPDX-License-Identifier: Apache-2.0
"""The page of a consumer group: the doctor's verdict, lag per queue and over time, members, owners of queues, stacks."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sprocketmq.console.cluster import Known
from sprocketmq.console.pages.page import given, now_ms, page, page_or_live, parts_of
from sprocketmq.console.safety.mask import Mask
from sprocketmq.console.show.values import whole_number
from sprocketmq.console.watch.group_state import GroupState, level_of
from sprocketmq.core.resource_names import is_retry_topic
from sprocketmq.wire.bodies import Connection, ConsumerConnection, ConsumerRunningInfo
from sprocketmq.wire.bodies.running_info import LAST_FAILURE, LAST_FAILURE_TIMESTAMP, PROP_CLIENT_VERSION
from sprocketmq.wire.records.message import MessageQueue

_MOST_LINES: Final = 8
_MOST_MEMBERS: Final = 100
_FRESH_MS: Final = 5_000


async def group(request: Request) -> Response:
    name, watcher = given(request, "name"), parts_of(request).watcher
    watcher.group_opened(name, request.query_params.get("topic", "").strip() or None)
    view = watcher.view
    return page_or_live(request, "group", name=name, state=view.groups.get(name), view=view)


async def group_verdict(request: Request) -> Response:
    """The doctor's verdict; a new one if the last one is older than a few seconds."""
    name, watcher = given(request, "name"), parts_of(request).watcher
    state = watcher.view.groups.get(name)
    verdict = state.verdict if state is not None else None
    if verdict is None or not 0 <= now_ms() - verdict.at_ms <= _FRESH_MS:
        verdict = await watcher.diagnose(name)
    level = level_of(verdict, state.lag if state is not None else None)
    return page(request, "group_verdict.html", name=name, verdict=verdict, level=level)


# -- members -------------------------------------------------------------------------------------------------------------------------


def _member(connection: Connection, broker: str, info: Known[ConsumerRunningInfo], mask: Mask) -> dict[str, Any]:
    """A member as a row: what brokers report about it, and its running info; None for unknown values."""
    row = {"connection": connection, "broker": broker, "missing": info.missing, "version": None, "rates": None}
    reported = info.value
    if reported is None:
        return {**row, "cached": None, "queues": None, "failure": None, "failure_ms": None}
    statuses = reported.status_table.values()
    failure = reported.user_consumer_info.get(LAST_FAILURE)
    failure_ms = reported.user_consumer_info.get(LAST_FAILURE_TIMESTAMP, "")
    return {
        **row,
        "version": reported.properties.get(PROP_CLIENT_VERSION),
        "rates": (sum(one.consume_ok_tps for one in statuses), sum(one.consume_failed_tps for one in statuses))
        if statuses
        else None,
        "cached": sum(one.cached_msg_count + one.transaction_msg_count for one in reported.mq_table.values()),
        "queues": sorted(
            queue for queue, held in reported.mq_table.items() if not held.droped and not is_retry_topic(queue.topic)
        ),
        "failure": mask.text(failure) if failure else None,
        "failure_ms": whole_number(failure_ms),
    }


async def group_members(request: Request) -> Response:
    name, parts = given(request, "name"), parts_of(request)
    admin, view = parts.cluster.admin, parts.watcher.view
    answers, missing = await parts.ask_masters(
        "the members", lambda broker: admin.consumer_connection(name, broker=broker)
    )
    seen: dict[str, tuple[Connection, str]] = {}
    for broker, connection in answers.items():
        for one in connection.connection_set if connection is not None else ():
            seen.setdefault(one.client_id, (one, broker))

    async def member_row(connection: Connection, broker: str) -> dict[str, Any]:
        ask = admin.running_info(name, connection.client_id, broker=broker)
        return _member(connection, broker, await parts.cluster.ask("the member", ask, limits=2), parts.mask)

    shown = [seen[client_id] for client_id in sorted(seen)[:_MOST_MEMBERS]]
    members = await asyncio.gather(*(member_row(*one) for one in shown))
    owners: dict[MessageQueue, list[str]] = {}
    for member in members:
        for queue in member["queues"] or ():
            owners.setdefault(queue, []).append(member["connection"].client_id)
    state = view.groups.get(name)
    announced = next((one for one in answers.values() if one is not None), None)
    return page(
        request,
        "group_members.html",
        name=name,
        members=members,
        count=len(seen),
        queues=_queue_rows(state, owners),
        owners_known=not missing and all(member["queues"] is not None for member in members),
        missing=missing,
        announced=announced,
        subscriptions=_subscriptions(announced),
    )


def _queue_rows(state: GroupState | None, owners: dict[MessageQueue, list[str]]) -> list[dict[str, Any]]:
    known = state.queues if state is not None else {}
    rows = [
        {"queue": queue, "at": known.get(queue), "owners": owners.get(queue, [])}
        for queue in sorted(known.keys() | owners.keys())
        if not is_retry_topic(queue.topic)
    ]
    return sorted(rows, key=lambda row: -(row["at"].lag if row["at"] else 0))


def _subscriptions(connection: ConsumerConnection | None) -> list[tuple[str, str]]:
    if connection is None:
        return []
    return [
        (topic, one.sub_string)
        for topic, one in sorted(connection.subscription_table.items())
        if not is_retry_topic(topic)
    ]


async def group_stack(request: Request) -> Response:
    name, client_id, broker = given(request, "name"), given(request, "client"), given(request, "broker")
    parts = parts_of(request)
    ask = parts.cluster.admin.running_info(name, client_id, jstack=True, broker=broker)
    info = await parts.cluster.ask(f"the stacks of {client_id}", ask, limits=2)
    stack = parts.mask.text(info.value.jstack) if info.value is not None and info.value.jstack else None
    return page(request, "group_stack.html", client_id=client_id, stack=stack, missing=info.missing)


# -- over time ---------------------------------------------------------------------------------------------------------------------------


async def group_history(request: Request) -> Response:
    name, watcher = given(request, "name"), parts_of(request).watcher
    watcher.page_loaded()
    state, history = watcher.view.groups.get(name), watcher.history
    series = [{"label": "all queues", "values": history.of((name, None))}]
    queues = sorted((state.queues if state is not None else {}).items(), key=lambda item: -item[1].lag)
    topics = {queue.topic for queue, _ in queues}
    for queue, _ in queues[:_MOST_LINES] if len(queues) > 1 else ():
        label = str(queue) if len(topics) > 1 else f"{queue.broker_name}/{queue.queue_id}"
        series.append({"label": label, "values": history.of((name, queue))})
    shown = [one for one in series if one["values"] is not None]
    times = history.times()
    words = _words(history.of((name, None)), times)
    if len(queues) > _MOST_LINES:
        words += f" Shown: all queues together, and the {_MOST_LINES} of {len(queues)} with the most lag."
    return JSONResponse({"times": times, "series": shown, "words": words})


def _words(values: list[int | None] | None, times: list[int]) -> str:
    known = [(at, value) for at, value in zip(times, values or [], strict=bool(values)) if value is not None]
    if not known:
        return "No lag is known yet."
    minutes = max(1, round((known[-1][0] - known[0][0]) / 60_000))
    first, last, top = known[0][1], known[-1][1], max(value for _, value in known)
    way = "grew" if last > first else "shrank" if last < first else "is where it was"
    span = "minute" if minutes == 1 else f"{minutes} minutes"
    return f"In the last {span} the lag {way}: from {first:,} to {last:,}, at most {top:,}."
