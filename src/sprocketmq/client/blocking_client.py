# SPDX-License-Identifier: Apache-2.0
"""The base of the blocking clients: their methods run on the process's engine thread while the caller waits.

A client that was started before a fork raises ClosedError in the child, because its thread and its connections stayed in the
parent; one that was not started may be started in the child.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from sprocketmq.errors import NetworkError, RemoteError, RequestTimeout
from sprocketmq.net.process import fork
from sprocketmq.net.process.engine import Engine

if TYPE_CHECKING:
    from typing import Self

    from sprocketmq.client.async_client import AsyncClient

A = TypeVar("A", bound="AsyncClient[Any]")
T = TypeVar("T")


class BlockingClient(Generic[A]):
    """Base of Producer, PushConsumer, PullConsumer, DeadLetters and Admin. `make generate` writes the methods that only call
    ``client``'s. ``engine``: default: the one shared by all blocking clients of the process."""

    def __init__(self, client: A, engine: Engine | None) -> None:
        self._async = client
        self._engine = engine if engine is not None else Engine.shared()
        if engine is None:
            fork.register(self)

    def after_fork_in_child(self) -> None:
        """In a forked child: a client that was not started in the parent may start, on an engine of this process."""
        if self._async.is_stopped:
            self._engine = cast(Engine, _LazyEngine(self))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return self._engine.run(coroutine)
        except (NetworkError, RequestTimeout, RemoteError) as error:
            # What a server did or did not. The dozen frames of the engine and of the async call say nothing to a caller.
            raise error.with_traceback(None)  # noqa: B904 - the same error, and its cause

    def _on_loop(self, call: Callable[[], T]) -> T:
        """Run a plain call on the loop that owns the client's state (a listener on that loop already is there)."""
        if self._engine.on_engine_thread:
            return call()

        async def run() -> T:
            return call()

        return self._run(run())

    def _run_shutdown(self) -> None:
        # Not in a ``__del__`` as the interpreter ends, which has shut it down already.
        if not (sys.is_finalizing() and self._async.is_stopped):
            self._run(self._async.shutdown())

    def start(self) -> None:
        """Connect. ``with`` does it too."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """Close; harmless when closed already. ``with`` does it too."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._engine.is_inherited:  # a forked child that leaves the block has nothing to shut down
            self.shutdown()

    def __repr__(self) -> str:
        return repr(self._async).replace("Async", "", 1)


class _LazyEngine:
    """The engine of a forked child, made when it is first used: most children never need its thread."""

    def __init__(self, client: BlockingClient[Any]) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        engine = self._client._engine = Engine.shared()
        return getattr(engine, name)
