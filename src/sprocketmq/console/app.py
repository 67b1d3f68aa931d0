# SPDX-License-Identifier: Apache-2.0
"""The console as an ASGI application: the address of each page, and the responses to errors."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sprocketmq.console.guard import SIGN_IN, Guard
from sprocketmq.console.pages import broker, changes, dead_letters, entry, group, groups, message, overview, topic
from sprocketmq.console.pages.page import ConsoleParts, Refused
from sprocketmq.console.safety.headers import PAGE
from sprocketmq.console.safety.hosts import Hosts

_STATIC: Final = Path(__file__).parent / "static"


def make_app(parts: ConsoleParts) -> Starlette:
    settings = parts.settings
    guard = Middleware(
        Guard,
        sessions=parts.sessions,
        hosts=Hosts(settings.host, settings.allowed_hosts),
        templates=parts.templates,
        cookie=parts.cookie,
    )
    app = Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=_STATIC)),
            Route(SIGN_IN, entry.sign_in, methods=["POST"]),
            Route("/sign-out", entry.sign_out, methods=["POST"]),
            Route("/", overview.overview),
            Route("/overview/live", overview.overview),
            Route("/events", overview.events),
            Route("/groups", groups.groups),
            Route("/groups/live", groups.groups),
            Route("/group", group.group),
            Route("/group/live", group.group),
            Route("/group/verdict", group.group_verdict),
            Route("/group/members", group.group_members),
            Route("/group/stack", group.group_stack),
            Route("/group/history", group.group_history),
            Route("/group/reset", changes.reset_group, methods=["POST"]),
            Route("/group/enable", changes.enable_group, methods=["POST"]),
            Route("/group/create", changes.create_group, methods=["POST"]),
            Route("/topic/create", changes.create_topic, methods=["POST"]),
            Route("/topics", topic.topics),
            Route("/topic", topic.topic),
            Route("/topic/traffic", topic.topic_traffic),
            Route("/topic/tail", topic.tail),
            Route("/topic/send", topic.send, methods=["POST"]),
            Route("/messages", message.messages),
            Route("/message", message.message),
            Route("/message/fate", message.message_fate),
            Route("/message/body", message.message_body),
            Route("/dead-letters", dead_letters.dead_letters),
            Route("/dead-letter", dead_letters.dead_letter),
            Route("/dead-letters/replay", dead_letters.replay, methods=["POST"]),
            Route("/brokers", broker.brokers),
            Route("/broker", broker.broker),
            Route("/access", broker.access),
        ],
        middleware=[guard],
        exception_handlers={Refused: _refused, HTTPException: _http_error, Exception: _failed},
    )
    app.state.parts = parts
    return app


def _refusal(request: Request, status: int, title: str, sentence: str) -> Response:
    parts: ConsoleParts = request.app.state.parts
    return parts.templates.response("refused.html", code=status, title=title, sentence=sentence)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _refusal(request, error.status, error.title, error.sentence)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _refusal(request, 404, "There is no such page", f"The console has nothing at {request.url.path}.")
    return _refusal(request, error.status_code, "That is not possible", str(error.detail))


async def _failed(request: Request, error: Exception) -> Response:
    """A bug in the console; uvicorn logs the traceback, because Starlette raises the error again."""
    answer = _refusal(request, 500, "The console failed", "Its log has the reason. Nothing else is affected.")
    answer.headers.update(PAGE)  # Starlette sends this response without the guard
    return answer
