# SPDX-License-Identifier: Apache-2.0
"""All consumer groups: found by name and state, sorted, in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sprocketmq.console.pages.page import address, page_or_live, parts_of
from sprocketmq.console.show.sparkline import sparkline
from sprocketmq.console.show.values import whole_number
from sprocketmq.console.watch.group_state import GroupState, Level, urgency_of
from sprocketmq.core.resource_names import is_system_group

_ON_A_PAGE: Final = 100
# What is not known comes first where the largest number does, because it may be larger.
_SORTS: Final[dict[str, Callable[[GroupState], Any]]] = {
    "state": urgency_of,
    "group": lambda one: one.group,
    "lag": lambda one: (one.lag is not None, -(one.lag or 0), one.group),
    "retries": lambda one: (-(one.retries_waiting or 0), one.group),
    "rate": lambda one: (-(one.per_second or 0.0), one.group),
}
_STATES: Final = {"offline": "no member online", **{level.value: level.text for level in Level}}


async def groups(request: Request) -> Response:
    return page_or_live(request, "groups", **_context(request))


def _context(request: Request) -> dict[str, Any]:
    parts = parts_of(request)
    given = request.query_params
    view = parts.watcher.view
    wanted, state, with_all = given.get("q", "").strip(), given.get("state", ""), "all" in given
    sort = given.get("sort", "state") if given.get("sort") in _SORTS else "state"
    backwards = "backwards" in given
    fitting = [
        one
        for one in view.groups.values()
        if (with_all or not is_system_group(one.group)) and wanted.lower() in one.group.lower() and _is_in(one, state)
    ]
    fitting.sort(key=_SORTS[sort], reverse=backwards)
    pages = max(1, -(-len(fitting) // _ON_A_PAGE))
    number = min(max(1, whole_number(given.get("page", "1")) or 1), pages)
    chosen = {"q": wanted or None, "state": state or None, "all": "1" if with_all else None}

    def href(path: str = "/groups", **changed: object) -> str:
        now = {**chosen, "sort": sort, "backwards": "1" if backwards else None, "page": number, **changed}
        return address(path, **now)

    return {
        "view": view,
        "trend": lambda group: sparkline(parts.watcher.history.of((group, None)) or ()),
        "groups": fitting[(number - 1) * _ON_A_PAGE : number * _ON_A_PAGE],
        "count": len(fitting),
        "pages": pages,
        "number": number,
        "sort": sort,
        "backwards": backwards,
        "href": href,
        "q": wanted,
        "state": state,
        "states": _STATES,
        "with_all": with_all,
    }


def _is_in(one: GroupState, state: str) -> bool:
    return state not in _STATES or (one.is_offline if state == "offline" else one.level.value == state)
