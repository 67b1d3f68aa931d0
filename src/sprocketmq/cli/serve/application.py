# SPDX-License-Identifier: Apache-2.0
"""The consumers of a user's program: finding them by ``module:name``, and running them until a signal.

A name is a consumer, several in a list, or a function without parameters that returns them: ``def``, ``async def``, or with
``contextlib.contextmanager`` or ``asynccontextmanager`` above it, which is left when the consumers have stopped. What the user's code
raises is printed with its traceback, without the frames of this package.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import difflib
import importlib
import inspect
import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from sprocketmq.client.consume.async_push_consumer import AsyncPushConsumer
from sprocketmq.client.consume.consumer_health import ConsumerHealth
from sprocketmq.client.consume.push_consumer import PushConsumer
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.troubles import listed

log = logging.getLogger("sprocketmq.cli")

T = TypeVar("T")
Consumer = PushConsumer | AsyncPushConsumer

_ALLOWED: Final = (
    "a PushConsumer, an AsyncPushConsumer, a list of them, or a function without parameters that returns them"
)
_HEALTH_WITHIN_S: Final = 5.0
_PACKAGE: Final = Path(__file__).parents[2]


class ApplicationFailed(RocketMQError):
    """The user's code raised an exception, which was printed."""


def load(targets: Sequence[str], app_dir: Path) -> list[tuple[str, Any]]:
    """What each ``module:name`` names, beside it; of a module without a name all its consumers. Raises ConfigurationError (there is no such
    module or name), ApplicationFailed (the module raised something)."""
    if not app_dir.is_dir():
        raise ConfigurationError(
            f"--app-dir is {str(app_dir)!r}, which is no directory; the one with your modules is allowed"
        )
    sys.path.insert(0, str(app_dir))
    found: list[tuple[str, Any]] = []
    for target in targets:
        name, colon, attribute = target.partition(":")
        module = _module(name, target, app_dir)
        if not colon:
            found += [(f"{name}:{key}", one) for key, one in vars(module).items() if isinstance(one, Consumer)]
            if not found:
                raise ConfigurationError(
                    f"module {name!r} has no consumer; name a function that makes one: '{name}:make'"
                )
            continue
        value: Any = module
        for part in attribute.split("."):
            if not hasattr(value, part):
                near = difflib.get_close_matches(part, vars(value) if hasattr(value, "__dict__") else ())
                known = f"did you mean '{name}:{near[0]}'?" if near else f"it is to be {_ALLOWED}{_offered(module)}"
                raise ConfigurationError(f"{target!r} is given, and module {name!r} has no {attribute!r}; {known}")
            value = getattr(value, part)
        found.append((target, value))
    return found


def _offered(module: ModuleType) -> str:
    """The names of a module that may be meant."""
    of_it = [
        key
        for key, one in vars(module).items()
        if isinstance(one, Consumer) or (inspect.isfunction(one) and one.__module__ == module.__name__)
    ]
    return f"; the module has {listed(of_it)}" if of_it else ""


def _module(name: str, target: str, app_dir: Path) -> ModuleType:
    if name.endswith(".py") or "/" in name or not all(part.isidentifier() for part in name.split(".")):
        path = Path(name)
        here = (
            f"'{path.stem}{target[len(name) :]}' with --app-dir {path.parent}"
            if name.endswith(".py")
            else "'module:name'"
        )
        raise ConfigurationError(f"{target!r} is given, a module and a name in it are allowed: {here}")
    try:
        return importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"there is no module {error.name!r} in {app_dir} and among the installed ones; --app-dir names another directory"
            ) from None
        raise _failed(error) from error


def _failed(error: Exception) -> ApplicationFailed:
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list([one for one in told.stack if not _is_ours(one.filename)])
    print("".join(told.format()), end="", file=sys.stderr)
    needs_address = isinstance(error, ConfigurationError) and "NAMESRV_ADDR" not in os.environ
    more = "; -n HOST:PORT is for clients that name no name server" if needs_address else ""
    return ApplicationFailed(f"the application failed before it ran; its traceback is above{more}")


def _is_ours(file: str) -> bool:
    return file.startswith((str(_PACKAGE), "<frozen importlib")) or file in (importlib.__file__, contextlib.__file__)


class Application:
    """The consumers as one part of a server. ``health``: host and port of the health check; None: there is none."""

    def __init__(self, named: Sequence[tuple[str, Any]], health: tuple[str, int] | None) -> None:
        self._named, self._health = named, health
        self._consumers: list[Consumer] = []
        self._factories = contextlib.AsyncExitStack()
        self._server: _HealthServer | None = None
        self._watching: asyncio.Task[None] | None = None
        self.ready, self.ended = asyncio.Event(), asyncio.Event()

    @property
    def announced(self) -> str:
        groups = ",".join(dict.fromkeys(consumer.group for consumer in self._consumers))
        return f"consumers={groups}" + (f" health={self._server.url}" if self._server is not None else "")

    async def astart(self) -> None:
        """Call the functions, and start all consumers. If one fails, what has begun is ended again."""
        try:
            for name, value in self._named:
                self._add(name, await self._made(value))
            for consumer in self._consumers:
                _async(consumer)._check_listens()
            if self._health is not None:  # before the consumers: if the port is taken, no message has been delivered
                self._server = _HealthServer(*self._health, self._report, asyncio.get_running_loop())
            await asyncio.gather(*(_of(consumer, _async(consumer).start()) for consumer in self._consumers))
        except BaseException:
            await self.astop()
            raise
        self._watching = asyncio.ensure_future(self._watch())
        self.ready.set()

    async def astop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        try:
            await asyncio.gather(*(_of(consumer, _async(consumer).shutdown()) for consumer in self._consumers))
            await self._factories.aclose()
        finally:
            if self._server is not None:  # last: until then it tells that the consumers stop
                await asyncio.to_thread(self._server.stop)

    async def _made(self, value: Any) -> Any:
        if isinstance(value, Consumer | Collection) or not callable(value):
            return value
        try:
            made = value()
            if inspect.isawaitable(made):
                made = await made
            if isinstance(made, contextlib.AbstractAsyncContextManager):
                return await self._factories.enter_async_context(made)
            if isinstance(made, contextlib.AbstractContextManager) and not isinstance(made, Consumer):
                return self._factories.enter_context(made)
            return made
        except Exception as error:
            raise _failed(error) from error

    def _add(self, name: str, value: Any) -> None:
        if isinstance(value, Consumer):
            if value not in self._consumers:
                self._consumers.append(value)
        elif isinstance(value, Collection) and not isinstance(value, str | bytes) and value:
            for one in value:
                self._add(name, one)
        else:
            raise ConfigurationError(f"{name} is {value!r}, {_ALLOWED} is allowed")

    async def _watch(self) -> None:
        await asyncio.gather(*(_of(consumer, _async(consumer).wait()) for consumer in self._consumers))
        log.info("all consumers were shut down")
        self.ended.set()

    async def _report(self) -> tuple[bool, list[dict[str, Any]]]:
        async def health(consumer: AsyncPushConsumer) -> ConsumerHealth:
            return consumer.health()

        found = await asyncio.gather(*(_of(consumer, health(_async(consumer))) for consumer in self._consumers))
        lines = [
            {
                "group": consumer.group,
                "state": one.state,
                "healthy": one.is_healthy,
                "problems": one.problems,
                "warnings": one.warnings,
            }
            for consumer, one in zip(self._consumers, found, strict=True)
        ]
        return all(one.is_healthy for one in found), lines


def _async(consumer: Consumer) -> AsyncPushConsumer:
    return consumer if isinstance(consumer, AsyncPushConsumer) else consumer._async


def _of(consumer: Consumer, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
    """``work`` on the loop of a consumer: that of a blocking one is its engine's."""
    return work if isinstance(consumer, AsyncPushConsumer) else asyncio.wrap_future(consumer._engine.submit(work))


class _HealthServer:
    """Answers each GET, in threads of its own, so that it can also tell that the loop is blocked."""

    def __init__(
        self,
        host: str,
        port: int,
        report: Callable[[], Coroutine[Any, Any, tuple[bool, list[dict[str, Any]]]]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        class Health(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                asked = asyncio.run_coroutine_threadsafe(report(), loop)
                try:
                    is_healthy, consumers = asked.result(_HEALTH_WITHIN_S)
                    answer: dict[str, Any] = {"healthy": is_healthy, "consumers": consumers}
                except concurrent.futures.TimeoutError:
                    asked.cancel()
                    is_healthy = False
                    problem = f"an event loop is blocked: no answer within {_HEALTH_WITHIN_S:g} s"
                    answer = {"healthy": False, "problems": [problem]}
                body = json.dumps(answer).encode()
                self.send_response(200 if is_healthy else 503)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Do not log probes."""

        try:
            self._server = ThreadingHTTPServer((host, port), Health)
        except OSError as error:
            raise ConfigurationError(
                f"the health check cannot listen on {host}:{port} ({error.strerror or error}); --health-port and --health-host "
                "name another address, port 0 any free one"
            ) from error
        self.url = f"http://{host}:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="health", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_HEALTH_WITHIN_S)
