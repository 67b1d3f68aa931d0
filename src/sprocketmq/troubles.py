# SPDX-License-Identifier: Apache-2.0
"""What fails again and again, in few lines: one when it begins, one a minute at most while it lasts, one when it ends.

Rules
1. A trouble is a cause at a place: a text or tuple of few, such as a server's address and the code with which it refuses. Queues, topics,
   groups and messages are no causes; ``of`` names them, and the next line of the trouble lists those that came meanwhile.
2. The first failure is logged at once. What follows is logged at DEBUG and counted. A minute later, or when the owner is closed, a line has
   the time for which the trouble lasts, and the count; the next failure has it, or ``sweep``.
3. It ends with ``over``, or, unless ``lasts`` was said, when nothing has failed for two minutes and there was no line for one: owners
   call ``sweep`` in their periodic work. One failure alone has no end then.
4. What begins again within a minute of its last line is the same trouble, so that what comes and goes is two lines a minute.
5. At most 256 troubles are open; the oldest is forgotten.
6. Any thread may tell of a failure. What succeeds costs nothing, if ``over`` is called only by who has failed before.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from types import TracebackType
from typing import Any, Final

INTERVAL_MS: Final = 60_000
QUIET_MS: Final = 120_000
_MOST: Final = 256
_MOST_NAMES: Final = 64
_SHOWN_NAMES: Final = 5
_LONGEST_TEXT: Final = 400
_PYTHON: Final = os.path.dirname(threading.__file__)
# What calls functions of the user, and is not named in the traceback of what they raise. No pathlib: every client imports this module.
_RUNNERS: Final = (
    os.path.dirname(__file__),
    *(os.path.join(_PYTHON, name) for name in ("asyncio", "concurrent", "threading.py", "contextlib.py")),
)


class Trouble:
    """``count``: of its failures, ``unlogged`` of those since its last line; ``names``: what failed since then. ``is_told``: there was a
    line since it began, or began again. Times are the clock's."""

    __slots__ = (
        "began_ms", "count", "is_over", "is_told", "last_ms", "lasts", "level", "logged_ms", "names", "text", "unlogged",
    )  # fmt: skip

    def __init__(self, now_ms: float, lasts: bool, level: int) -> None:
        self.lasts, self.level, self.is_over, self.is_told = lasts, level, False, True
        self.began_ms = self.last_ms = self.logged_ms = now_ms
        self.count = self.unlogged = 0
        self.names: dict[str, None] = {}
        self.text = ""

    def is_quiet(self, now_ms: float) -> bool:
        """Not within a minute of its last line, which may be about failures of before: the next one would have a line at once."""
        return not self.lasts and now_ms - self.last_ms > QUIET_MS and not self.was_told(now_ms)

    def was_told(self, now_ms: float) -> bool:
        return now_ms - self.logged_ms < INTERVAL_MS


class Troubles:
    """The open troubles of one client, server or query, which are lines of ``log``. ``now_ms``: a clock that nobody sets."""

    def __init__(self, log: logging.Logger, now_ms: Callable[[], float] = lambda: time.monotonic() * 1000) -> None:
        self._log, self._now_ms = log, now_ms
        self._open: dict[Hashable, Trouble] = {}

    def __contains__(self, cause: Hashable) -> bool:
        trouble = self._open.get(cause)
        return trouble is not None and not trouble.is_over

    def failed(
        self,
        cause: Hashable,
        sentence: str,
        *args: object,
        of: str = "",
        lasts: bool = False,
        level: int = logging.WARNING,
        error: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
        stacklevel: int = 1,
    ) -> None:
        """``sentence`` % ``args`` failed, or failed again. ``error``: its traceback is logged, too."""
        now_ms, stacklevel = self._now_ms(), stacklevel + 1
        begun = Trouble(now_ms, lasts, level)
        trouble = self._open.setdefault(cause, begun)
        if trouble.is_over:
            if trouble.was_told(now_ms):
                trouble.is_over = trouble.is_told = False
            else:
                trouble = self._open[cause] = begun
        elif trouble.is_quiet(now_ms):
            self._end(cause, now_ms)
            trouble = self._open[cause] = begun
        trouble.last_ms = now_ms
        trouble.count += 1
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        if trouble is begun:
            if len(self._open) > _MOST:
                self._open.pop(list(self._open)[0], None)  # noqa: RUF015 - in one step, because other threads add
            trouble.text = _text(sentence, args)
            self._log.log(level, sentence, *args, exc_info=exc_info, extra=extra, stacklevel=stacklevel)
            return
        if of and len(trouble.names) < _MOST_NAMES:
            trouble.names[of] = None
        if trouble.was_told(now_ms):
            trouble.unlogged += 1
            self._log.debug(sentence, *args, exc_info=exc_info, extra=extra, stacklevel=stacklevel)
            return
        self._log.log(
            level,
            sentence + " (for %s%s%s)",
            *args,
            *self._told_again(trouble, now_ms),
            exc_info=exc_info,
            extra=extra,
            stacklevel=stacklevel,
        )

    @staticmethod
    def _told_again(trouble: Trouble, now_ms: float) -> tuple[str, str, str]:
        """For how long, how many more, and which, for a line of a trouble that had one before."""
        trouble.logged_ms, trouble.is_told, more, trouble.unlogged = now_ms, True, trouble.unlogged, 0
        names, trouble.names = listed(trouble.names, are_all=len(trouble.names) < _MOST_NAMES), {}
        more_text = f", {more:,} more since the last line" if more else ""
        return _span(now_ms - trouble.began_ms), more_text, names and f": {names}"

    def more(self, cause: Hashable, of: str = "") -> None:
        """Count what failed because of an open trouble, without a line."""
        trouble = self._open.get(cause)
        if trouble is not None:
            trouble.count += 1
            trouble.unlogged += 1
            if of and len(trouble.names) < _MOST_NAMES:
                trouble.names[of] = None

    def over(self, cause: Hashable, sentence: str, *args: object) -> None:
        """What failed works again. The line goes on with the time that the trouble took."""
        trouble = self._open.get(cause)
        if trouble is None or trouble.is_over:
            return
        trouble.is_over = True
        if trouble.is_told:
            lasted, times = _span(self._now_ms() - trouble.began_ms), _times(trouble)
            self._log.warning(f"{sentence} after %s%s", *args, lasted, times, stacklevel=2)

    def sweep(self) -> None:
        now_ms = self._now_ms()
        for cause, trouble in list(self._open.items()):
            if trouble.is_over:
                if not trouble.was_told(now_ms):
                    self._open.pop(cause, None)
            elif trouble.is_quiet(now_ms):
                self._end(cause, now_ms)
            elif not trouble.was_told(now_ms):
                self._tell_unlogged(trouble, now_ms)

    def close(self) -> None:
        """The owner ends: what was only counted is said."""
        now_ms = self._now_ms()
        for trouble in list(self._open.values()):
            if not trouble.is_over:
                self._tell_unlogged(trouble, now_ms)

    def _tell_unlogged(self, trouble: Trouble, now_ms: float) -> None:
        if trouble.unlogged:
            self._log.log(trouble.level, "%s (for %s%s%s)", trouble.text, *self._told_again(trouble, now_ms))

    def _end(self, cause: Hashable, now_ms: float) -> None:
        """It is quiet."""
        trouble = self._open.pop(cause, None)
        if trouble is not None and trouble.count > 1 and trouble.is_told:
            ago, lasted = _span(now_ms - trouble.last_ms), _span(trouble.last_ms - trouble.began_ms)
            self._log.warning("ended %s ago, after %s%s: %s", ago, lasted, _times(trouble), trouble.text)


def raised_at(error: BaseException) -> Hashable:
    """The line of code of the user that raised an error, with its type: the cause of a trouble. Takes the frames of this package, and of
    what runs its callbacks, out of the traceback, and out of those of the errors that led to it."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _cut(one.__traceback__)
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    kind = type(error).__qualname__
    return (kind, "", 0) if trace is None else (kind, trace.tb_frame.f_code.co_filename, trace.tb_lineno)


def _cut(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_RUNNERS):
            kept.append(trace)
        trace = trace.tb_next
    following = None
    for one in reversed(kept):
        one.tb_next, following = following, one
    return following


def listed(names: Collection[str], *, are_all: bool = True) -> str:
    """The first names, and how many there are."""
    shown = list(names)[:_SHOWN_NAMES]
    left = len(names) - len(shown)
    return ", ".join(shown) + ((f" and {left} more" if are_all else " and others") if left else "")


def _times(trouble: Trouble) -> str:
    return f" ({trouble.count:,} times)" if trouble.count > 1 else ""


def _span(ms: float) -> str:
    return f"{ms / 60_000:.0f} min" if ms >= 180_000 else f"{ms / 1000:.0f} s"


def _text(sentence: str, args: tuple[Any, ...]) -> str:
    try:
        text = sentence % args if args else sentence
    except Exception:  # noqa: BLE001 - the text of an error of the user may raise
        text = sentence
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."
