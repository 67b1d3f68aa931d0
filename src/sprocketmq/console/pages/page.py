# SPDX-License-Identifier: Apache-2.0
"""What all pages use: the parts of the console, pages from templates, checked forms."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, StreamingResponse

from sprocketmq.console.cluster import Cluster
from sprocketmq.console.safety.audit import Audit
from sprocketmq.console.safety.mask import Mask
from sprocketmq.console.safety.sessions import Session, Sessions
from sprocketmq.console.settings import ConsoleSettings
from sprocketmq.console.show.templates import Templates
from sprocketmq.console.watch.watcher import Watcher

T = TypeVar("T")

FORM_KEY: Final = "form_key"
_MOST_FIELDS: Final = 2_000


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    settings: ConsoleSettings
    cluster: Cluster
    watcher: Watcher
    sessions: Sessions
    mask: Mask
    audit: Audit
    templates: Templates
    cookie: str

    async def ask_masters(
        self, what: str, call: Callable[[str], Awaitable[T]], among: Iterable[str] | None = None, *, limits: float = 1
    ) -> tuple[dict[str, T], list[str]]:
        """The results of the masters, or of some of them, and a sentence for each that does not answer."""
        view = self.watcher.view
        silent = [one for one in view.masters_silent if among is None or one in among]
        asked = view.masters_up if among is None else [one for one in among if one not in silent]
        answers, missing = await self.cluster.ask_each(what, asked, call, limits=limits)
        return answers, [*missing, *(f"{what} at broker {one}: it does not answer" for one in silent)]


class Refused(Exception):
    """Ends a request with a page that says why it was refused."""

    def __init__(self, status: int, title: str, sentence: str) -> None:
        self.status, self.title, self.sentence = status, title, sentence
        super().__init__(sentence)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def parts_of(request: Request) -> ConsoleParts:
    parts: ConsoleParts = request.app.state.parts
    return parts


def given(request: Request, name: str) -> str:
    """A parameter of the address. Raises Refused if it is missing."""
    value = request.query_params.get(name, "")
    if not value:
        raise Refused(404, "There is no such page", f"The address names no {name}.")
    return value


def address(path: str, **parameters: object) -> str:
    """The address of a page; parameters that are None are left out."""
    named = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(named)}" if named else path


def page(request: Request, template: str, *, code: int = 200, **context: Any) -> HTMLResponse:
    parts = parts_of(request)
    session: Session = request.state.session
    parts.watcher.page_loaded()
    common = {"path": request.url.path, "form_key": session.form_key, "proxy": parts.watcher.view.proxy}
    return parts.templates.response(template, code=code, **common, **context)


def page_or_live(request: Request, template: str, **context: Any) -> HTMLResponse:
    """A page, or at ``.../live`` the part of it that is loaded again after each update."""
    return page(
        request, f"{template}_live.html" if request.url.path.endswith("/live") else f"{template}.html", **context
    )


def event_stream(request: Request, events: AsyncIterator[str]) -> StreamingResponse:
    """Server-sent events, unless the session has too many such streams; then the browser tries again after a minute."""
    sessions, session = parts_of(request).sessions, request.state.session

    async def limited() -> AsyncIterator[str]:
        if not sessions.take_stream(session):
            yield "retry: 60000\n: too many pages wait for events\n\n"
            return
        try:
            async for event in events:
                yield event
        finally:
            sessions.give_stream_back(session)

    return StreamingResponse(limited(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def fields_of(request: Request) -> FormData:
    """The fields of a form, without a check of its form key. Raises Refused: the browser disconnected, or the body is too large."""
    try:
        return await request.form(max_fields=_MOST_FIELDS, max_files=0)
    except ClientDisconnect as error:
        raise Refused(413, "The form is too large", "Nothing was changed.") from error


async def form_of(request: Request) -> FormData:
    """The fields of a form with the form key of this session. Raises Refused (the form key is wrong)."""
    form = await fields_of(request)
    key = form.get(FORM_KEY)
    if not isinstance(key, str) or not Sessions.form_is_of(request.state.session, key):
        raise Refused(
            403, "That form is not from this session", "Open the page again and repeat it. Nothing was changed."
        )
    return form


async def change_of(request: Request) -> FormData:
    """Like ``form_of``, for changes of the cluster, which a read-only console refuses."""
    form = await form_of(request)
    if not parts_of(request).settings.allow_changes:
        raise Refused(
            403, "This console is read-only", "Start it with --allow-changes to change something. Nothing was changed."
        )
    return form
