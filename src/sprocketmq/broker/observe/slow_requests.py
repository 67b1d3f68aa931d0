# SPDX-License-Identifier: Apache-2.0
"""The slow-request log: requests whose handling blocked the event loop too long. One that only waits (a parked pull, an answer that waits
for disk or slave) is not slow. One line a minute for each request code; the next one counts those in between."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from sprocketmq.core.access.rights import shown
from sprocketmq.troubles import Troubles
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.requests.access import FieldNeed, ReplyNeed

if TYPE_CHECKING:
    from sprocketmq.net.connection import Connection
    from sprocketmq.wire.frames.command import Command

log = logging.getLogger("sprocketmq.slow")


class SlowRequests:
    """Writes a line for each request that took ``threshold_ms`` or longer; callers compare with ``threshold_s``."""

    def __init__(self, threshold_ms: int) -> None:
        self.threshold_s: Final = threshold_ms / 1000
        self.count = 0
        self._troubles = Troubles(log)

    def note(self, connection: Connection, command: Command, took_s: float) -> None:
        self.count += 1
        self._troubles.failed(
            int(command.code),
            "%s of %s took %d ms",
            _name(command.code),
            connection.remote_address,
            took_s * 1000,
            of=connection.remote_address,
            extra={
                "request_code": int(command.code),
                "remote_address": connection.remote_address,
                "took_ms": round(took_s * 1000, 1),
                "body_bytes": len(command.body),
                **_named_in(command),
            },
        )


def _named_in(command: Command) -> dict[str, str]:
    """``topic`` and ``group``: the names for which the request needs a right. Other fields are not logged."""
    named: dict[str, str] = {}
    for kind, field in _NAMING.get(command.code, ()):
        name = command.fields.get(field)
        if name:
            named[kind] = shown(f"{named[kind]}, {name}" if kind in named else name)
    return named


_NAMING: Final = {
    int(one.code): tuple(
        (need.kind, need.field) for need in one.access or () if isinstance(need, FieldNeed | ReplyNeed)
    )
    for one in requests.declared()
}


def _name(code: int) -> str:
    try:
        return f"{RequestCode(code).name} {code}"
    except ValueError:
        return f"request {code}"
