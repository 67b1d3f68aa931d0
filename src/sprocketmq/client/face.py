"""The blocking face of an async client: the same verbs, run on the process's engine thread while the caller waits.

No logic here. A blocking client that was started before a fork cannot be used in the child (its thread and its connections stayed in the
parent), and says so; one that was only made may be started there.
"""

from __future__ import annotations

from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sprocketmq.net import fork
from sprocketmq.net.engine import Engine

if TYPE_CHECKING:
    from typing import Self

    from sprocketmq.client.async_client import AsyncClient

__all__ = ["BlockingFace"]

T = TypeVar("T")


class BlockingFace:
    """Base of Producer, PushConsumer, PullConsumer and Admin.

    Args:
        engine: runs the async client; default the one shared by all blocking clients of the process.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine if engine is not None else Engine.shared()
        if engine is None:
            fork.watch(self)

    def left_behind(self) -> None:
        """In a forked child: a client that holds nothing of the parent yet may start, on an engine of this process."""
        client: AsyncClient[Any] | None = getattr(self, "_async", None)
        if client is None or client.holds_nothing:
            self._engine = cast(Engine, _EngineLater(self))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._engine.run(coroutine)

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
        if not self._engine.is_inherited:  # a child that leaves the block leaves nothing of its own
            self.shutdown()


class _EngineLater:
    """Stands in for the engine of a forked child until it is used: most children never need its thread."""

    def __init__(self, face: BlockingFace) -> None:
        self._face = face

    def __getattr__(self, name: str) -> Any:
        engine = self._face._engine = Engine.shared()
        return getattr(engine, name)
