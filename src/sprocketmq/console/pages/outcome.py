# SPDX-License-Identifier: Apache-2.0
"""Changes of the cluster: each is written to the audit log before and after it is made, and its result is shown."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sprocketmq.console.pages.page import page, parts_of
from sprocketmq.errors import RocketMQError, StoreNotWritable

_LIMITS: Final = 3  # a send may be retried at other brokers


@dataclass(frozen=True, slots=True)
class Outcome:
    is_done: bool
    what: str
    sentence: str


def body_facts(body: bytes) -> dict[str, Any]:
    return {"body_bytes": len(body), "body_sha256": hashlib.sha256(body).hexdigest()}


async def changing(
    request: Request, action: str, carry_out: Callable[[], Awaitable[str]], *, what: str = "", **facts: Any
) -> Outcome:
    """Make a change, ``action`` in the audit log, with ``facts``. ``carry_out`` makes it, and returns the result as the end of a
    sentence; ``what`` is changed, for the user."""
    parts = parts_of(request)
    peer = request.client.host if request.client is not None else "unknown"
    title = what or action.capitalize()
    try:
        change = parts.audit.begins(action, request.state.session.number, peer, **facts)
    except StoreNotWritable as error:
        return Outcome(False, title, str(error))
    try:
        async with asyncio.timeout(parts.settings.limit_ms * _LIMITS / 1000):
            outcome = Outcome(True, title, await carry_out())
    except TimeoutError as error:  # RequestTimeout is one
        outcome = Outcome(False, title, f"{error or 'there was no answer in time'}; it may have been carried out")
    except RocketMQError as error:
        outcome = Outcome(False, title, str(error))
    except BaseException as error:  # a bug in the console, or the console is being stopped
        with contextlib.suppress(StoreNotWritable):
            parts.audit.ended(change, f"not known ({type(error).__name__}); it may have been carried out")
        raise
    try:
        parts.audit.ended(change, outcome.sentence)
    except StoreNotWritable as error:
        return Outcome(outcome.is_done, title, f"{outcome.sentence}; the audit log does not say so: {error}")
    return outcome


def outcome_response(request: Request, outcomes: list[Outcome], *, dry_run: bool = False) -> Response:
    template = "outcome.html" if request.headers.get("hx-request") == "true" else "outcome_page.html"
    return page(request, template, outcomes=outcomes, dry_run=dry_run)
