"""The blocking face of an async client: the same verbs, run on the process's engine thread while the caller waits.

No logic here. A blocking client made before a fork cannot be used in the child (its thread stayed in the parent); make a new one there.
"""

from __future__ import annotations

from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from sprocketmq.net.engine import Engine

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BlockingFace"]

T = TypeVar("T")


class BlockingFace:
    """Base of Producer, PushConsumer, PullConsumer and Admin.

    Args:
        engine: runs the async client; default the one shared by all blocking clients of the process.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine if engine is not None else Engine.shared()

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
        self.shutdown()
