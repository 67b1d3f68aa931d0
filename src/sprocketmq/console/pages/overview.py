# SPDX-License-Identifier: Apache-2.0
"""The overview: first what needs attention, then the groups with members. Also the stream that notifies open pages of updates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sprocketmq.console.pages.entry import sign_in_by
from sprocketmq.console.pages.page import ConsoleParts, event_stream, page_or_live, parts_of
from sprocketmq.console.safety.sessions import Session
from sprocketmq.console.show.sparkline import sparkline
from sprocketmq.console.watch.group_state import GroupState, Level, urgency_of
from sprocketmq.console.watch.watcher import ClusterView
from sprocketmq.core.resource_names import is_system_group

_MOST_SHOWN: Final = 300
_KEEP_ALIVE_S: Final = 15.0


async def overview(request: Request) -> Response:
    if token := request.query_params.get("token"):
        return sign_in_by(request, token)
    return page_or_live(request, "overview", **_context(request))


def _context(request: Request) -> dict[str, Any]:
    parts = parts_of(request)
    view = parts.watcher.view
    with_all = "all" in request.query_params
    wanted = request.query_params.get("q", "").strip()
    groups = [one for one in view.groups.values() if with_all or not is_system_group(one.group)]
    found = sorted((one for one in groups if wanted.lower() in one.group.lower()), key=urgency_of)
    offline = [] if wanted else [one for one in found if one.is_offline]
    fitting = found[: len(found) - len(offline)]  # those with members are first
    return {
        "view": view,
        "trend": lambda group: sparkline(parts.watcher.history.of((group, None)) or ()),
        "red": [one for one in fitting if one.level is Level.BAD],
        "offline": offline,
        "waiting": sum(bool(one.lag) for one in offline),
        "groups": fitting[:_MOST_SHOWN],
        "fitting": len(fitting),
        "q": wanted,
        "with_all": with_all,
        "silent": [one for one in view.brokers if not one.is_up],
        "summary": summary(view, groups),
        "urgency": urgency(view, groups).value,
    }


def summary(view: ClusterView, groups: list[GroupState]) -> str:
    if view.at_ms is None:
        return "Waiting for the cluster."
    if view.proxy is not None and not groups:
        return f"The proxy at {view.proxy} answers. It lists no groups, topics and brokers: open a group or a topic by its name."
    if not view.brokers and view.proxy is None:
        return "The cluster does not answer."
    counts = {level: sum(one.level is level for one in groups) for level in Level}
    down = sum(not one.is_up for one in view.brokers)
    counted = [
        (counts[Level.BAD], "group needs attention", "groups need attention"),
        (down, "broker does not answer", "brokers do not answer"),
        (counts[Level.WARN], "group to look at", "groups to look at"),
        (counts[Level.UNKNOWN], "group is not known yet", "groups are not known yet"),
    ]
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counted if count]
    well = counts[Level.WELL] + counts[Level.IDLE]
    if not parts:
        parts.append("All is well")
    elif well:
        parts.append(f"{well} {'group is' if well == 1 else 'groups are'} well")
    sentence = ", ".join(parts)
    return f"{sentence}."


def urgency(view: ClusterView, groups: list[GroupState]) -> Level:
    if view.at_ms is None:
        return Level.UNKNOWN
    if not (view.brokers or view.proxy) or not all(one.is_up for one in view.brokers):
        return Level.BAD
    levels = {one.level for one in groups} | ({Level.UNKNOWN} if view.missing else set())
    return min(levels - {Level.IDLE}, key=lambda level: level.rank, default=Level.WELL)


async def events(request: Request) -> Response:
    return event_stream(request, _ticks(parts_of(request), request.state.session))


async def _ticks(parts: ConsoleParts, session: Session) -> AsyncIterator[str]:
    version, watcher = -1, parts.watcher
    yield "retry: 3000\n\n"
    while not watcher.is_closed and parts.sessions.is_open(session):
        watcher.page_loaded()
        now = await watcher.change(version, _KEEP_ALIVE_S)
        yield f"event: tick\ndata: {now}\n\n" if now > version else ": still here\n\n"
        version = max(version, now)
