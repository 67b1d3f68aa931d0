# SPDX-License-Identifier: Apache-2.0
"""The checks before every page: no handler runs before all of them. A handler that changes something accepts only POST.

unknown host name          421
no session                 401    the sign-in page; the console's static files need no session
a change                   403    if the console is read-only, without form key, or from a page of another site
a body too large           413
a body that is not a form  415    all forms of the console have one content type
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sprocketmq.console.safety.headers import DOWNLOAD, PAGE, STATIC
from sprocketmq.console.safety.hosts import Hosts
from sprocketmq.console.safety.sessions import Sessions
from sprocketmq.console.show.templates import Templates

MOST_FORM_BYTES: Final = 2 << 20
SIGN_IN: Final = "/sign-in"
_STATIC: Final = "/static/"
_FORM: Final = "application/x-www-form-urlencoded"
_SAFE_METHODS: Final = frozenset(("GET", "HEAD"))


class Guard:
    """Middleware around all pages. Sets ``request.state.session``."""

    def __init__(self, app: ASGIApp, *, sessions: Sessions, hosts: Hosts, templates: Templates, cookie: str) -> None:
        self._app, self._sessions, self._hosts, self._templates = app, sessions, hosts, templates
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(scope, send))
            return
        await self._app(scope, _limited(receive), _with_headers(scope, send))

    def _refusal(self, scope: Scope) -> Response | None:
        request = Request(scope)
        host = request.headers.get("host", "")
        if not self._hosts.allows(host):
            return self._refuse(
                421,
                "Unknown host name",
                f"The request was for {host or 'no host'}. If that is a name of this console, start it with --allow-host and that name.",
            )
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return self._refuse(405, "Method not allowed", "Use GET or POST.")
        path = scope["path"]
        if path.startswith(_STATIC) and scope["method"] in _SAFE_METHODS:
            return None
        session = self._sessions.find(request.cookies.get(self._cookie, ""))
        scope.setdefault("state", {})["session"] = session
        if scope["method"] == "POST" and not self._is_own_page(request.headers, host):
            return self._refuse(403, "That form came from another site", "Nothing was changed.")
        if _too_large(request.headers):
            return self._refuse(
                413, "The form is too large", f"At most {MOST_FORM_BYTES:,} bytes are allowed. Nothing was changed."
            )
        if request.headers.get("content-type", _FORM).partition(";")[0].strip().lower() != _FORM:
            return self._refuse(415, "Content type not allowed", f"Use {_FORM}. Nothing was changed.")
        if path == SIGN_IN or (path == "/" and scope["method"] == "GET" and "token" in request.query_params):
            return None
        if session is None:
            return self._templates.response("sign_in.html", code=401, wrong=False)
        return None

    def _is_own_page(self, headers: Headers, host: str) -> bool:
        """Whether the browser says that the form comes from this console; the form key is checked when the form is read."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        return origin is None or self._hosts.allows_origin(origin, host)

    def _refuse(self, status: int, title: str, sentence: str) -> Response:
        return self._templates.response("refused.html", code=status, title=title, sentence=sentence)


def _too_large(headers: Headers) -> bool:
    length = headers.get("content-length", "0")
    return not length.isdigit() or int(length) > MOST_FORM_BYTES


def _limited(receive: Receive) -> Receive:
    """Limits a body without a length: one that is too long ends as if the browser had disconnected."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > MOST_FORM_BYTES:
                return {"type": "http.disconnect"}
        return message

    return limited


def _with_headers(scope: Scope, send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if "content-disposition" in headers:
                chosen = DOWNLOAD
            else:
                chosen = STATIC if scope["path"].startswith(_STATIC) and message["status"] == 200 else PAGE
            for name, value in chosen.items():
                headers[name] = value
        await send(message)

    return sending
