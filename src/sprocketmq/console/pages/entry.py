# SPDX-License-Identifier: Apache-2.0
"""Signing in and out."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sprocketmq.console.pages.page import fields_of, form_of, parts_of


async def sign_in(request: Request) -> Response:
    form = await fields_of(request)
    return sign_in_by(request, str(form.get("token", "")).strip())


def sign_in_by(request: Request, token: str) -> Response:
    """The response is a page that loads the console, not a redirect: browsers do not send a strict cookie after a redirect that began
    at another site (a link in a chat or a mail)."""
    parts = parts_of(request)
    session = parts.sessions.open(token)
    if session is None:
        return parts.templates.response("sign_in.html", code=401, wrong=True)
    answer = parts.templates.response("signed_in.html")
    answer.set_cookie(
        parts.cookie, session.key, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
    )
    return answer


async def sign_out(request: Request) -> Response:
    await form_of(request)
    parts = parts_of(request)
    parts.sessions.close(request.state.session)
    answer = RedirectResponse("/", status_code=303)
    answer.delete_cookie(parts.cookie, path="/")
    return answer
