# SPDX-License-Identifier: Apache-2.0
"""Pages about brokers: the list, and the runtime info, settings, slaves and clients of one; users and policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sprocketmq.client.admin import BrokerStatus
from sprocketmq.console.pages.page import Refused, given, page, parts_of

_MASTER: Final = 0
_SECRET: Final = re.compile(r"secret|password|token|credential", re.IGNORECASE)
_SHOWN_FIRST: Final = (
    ("uptime", "runtime"),
    ("commit log on the disk", "commitLogDiskRatio"),
    ("disk in use", "commitLogDirCapacity"),
    ("messages stored today", "msgPutTotalTodayNow"),
    ("page cache lock, ms", "pageCacheLockTimeMills"),
    ("oldest message", "earliestMessageTimeStamp"),
    ("waiting sends", "sendThreadPoolQueueSize"),
    ("waiting pulls", "pullThreadPoolQueueSize"),
)


async def brokers(request: Request) -> Response:
    parts = parts_of(request)
    found = await parts.cluster.ask("the brokers", parts.cluster.admin.brokers(), limits=2)
    listed = parts.watcher.with_gone(found.value or [])
    missing = [*found.why, *(why for one in listed for why in (one.rivalry, one.absence) if why is not None)]
    rows = [_row(one) for one in listed]
    return page(request, "brokers.html", rows=rows, missing=missing)


def _row(one: BrokerStatus) -> dict[str, Any]:
    return {"status": one, "disk": _ratio(one.info), "is_full": (_ratio(one.info) or 0.0) >= 0.85}


def _ratio(info: Mapping[str, str]) -> float | None:
    """How full the disk of the commit log is, 0 to 1; None if the broker does not report it, or has no disk."""
    for name in (
        "commitLogDiskRatio",
        "commitLogMaxDiskRatio",
        *(one for one in info if one.startswith("commitLogDiskRatio")),
    ):
        try:
            value = float(info[name])
        except (KeyError, ValueError):
            continue
        return value if 0 <= value <= 1 else None
    return None


def shown_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Settings without secrets, sorted. ``initAuthenticationUser`` of Apache's broker.conf has its password in the value, as JSON."""
    return {
        key: "hidden" if value and (_SECRET.search(key) or _SECRET.search(value)) else value
        for key, value in sorted(config.items())
    }


async def broker(request: Request) -> Response:
    parts = parts_of(request)
    name, number = given(request, "name"), request.query_params.get("id", "0")
    found = await parts.cluster.ask("the brokers", parts.cluster.admin.brokers(), limits=2)
    listed = parts.watcher.with_gone(found.value or [])
    status = next((one for one in listed if (one.broker_name, str(one.broker_id)) == (name, number)), None)
    if found.missing is not None:
        raise Refused(504, "The broker cannot be shown", found.missing)
    if status is None:
        raise Refused(404, "There is no such broker", f"The name servers know no broker {name} with id {number}.")
    context: dict[str, Any] = {"config": {}, "producers": None, "ha": None}
    missing: list[str] = []
    if status.is_up:
        admin, ask = parts.cluster.admin, parts.cluster.ask
        config = await ask("its settings", admin.broker_config(status.address))
        missing += config.why
        context["config"] = shown_settings(config.value or {})
        if status.broker_id == _MASTER:
            producers = await ask("its producers", admin.producers(status.address))
            context["producers"] = producers.value
            ha = await ask("its slaves", admin.ha_status(status.address))
            context["ha"] = ha.value
            missing += producers.why + ha.why
    else:
        missing.append(f"broker {status.absence or f'{name} at {status.address} is registered and does not answer'}")
    first = [(text, status.info[key]) for text, key in _SHOWN_FIRST if status.info.get(key)]
    return page(request, "broker.html", status=status, first=first, row=_row(status), missing=missing, **context)


async def access(request: Request) -> Response:
    parts = parts_of(request)
    admin = parts.cluster.admin
    speaks, missing = await parts.ask_masters("the version", admin.speaks_5x)
    new = [name for name, is_new in speaks.items() if is_new]
    users, no_users = await parts.cluster.ask_each("users", new, admin.users)
    acls, no_acls = await parts.cluster.ask_each("policies", new, admin.acls)
    policies = {
        name: [
            (one.subject, entry.decision, entry.resource, entry.actions or [], entry.source_ips or [])
            for one in found
            for policy in one.policies or ()
            for entry in policy.entries or ()
        ]
        for name, found in acls.items()
    }
    return page(
        request,
        "access.html",
        users=users,
        policies=policies,
        old=[name for name, is_new in speaks.items() if not is_new],
        missing=[*missing, *no_users, *no_acls],
    )
