# SPDX-License-Identifier: Apache-2.0
"""What the hosts of test_more_hosts.py run: a WSGI and an ASGI application, and a task of Celery; each call sends one message."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Any

import sprocketmq as rmq

ADDRESS = os.environ["NAMESRV_ADDR"]


@cache
def producer() -> rmq.Producer:
    """One for each process, made by its first request, after the fork."""
    made = rmq.Producer("host", namesrv_addr=ADDRESS)
    made.start()
    return made


def send() -> str:
    try:
        return str(producer().send(rmq.Message("hosts", b"1")).status)
    except rmq.ConfigurationError as error:
        return f"refused: {error}"


def wsgi(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    answer = send().encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer)))])
    return [answer]


client: rmq.AsyncProducer | None = None


async def asgi(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], reply: Callable[[Any], Any]) -> None:
    global client
    if scope["type"] == "lifespan":
        await receive()
        client = rmq.AsyncProducer("host", namesrv_addr=ADDRESS)
        await client.start()
        await reply({"type": "lifespan.startup.complete"})
        await receive()
        await client.shutdown()
        await reply({"type": "lifespan.shutdown.complete"})
        return
    assert client is not None
    answer = str((await client.send(rmq.Message("hosts", b"1"))).status).encode()
    await reply({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]})
    await reply({"type": "http.response.body", "body": answer})


def celery() -> Any:
    from celery import Celery

    folder = os.environ["HOST_FOLDER"]
    app = Celery("hosts", broker="filesystem://", backend=f"file://{folder}")
    app.conf.broker_transport_options = {
        "data_folder_in": folder,
        "data_folder_out": folder,
        "control_folder": tempfile.mkdtemp(dir=folder),
    }
    app.task(send, name="send")
    return app


if "HOST_FOLDER" in os.environ:
    app = celery()
