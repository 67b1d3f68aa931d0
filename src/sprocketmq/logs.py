# SPDX-License-Identifier: Apache-2.0
"""What peers say is never a line of the log: names, client ids, remarks and texts of errors are told with their line breaks written out.

A filter on each of this package's loggers, so that it works for whatever handlers an application has. Import this module in the
``__init__`` of a package that logs, and name its loggers here: a test holds both.

Only what is inserted into a line is looked at, not the line's own text. A stack that is told on purpose is an argument of the type
:class:`Lines`.
"""

from __future__ import annotations

import logging
import re
from typing import Final

__all__ = ["LOGGERS", "EscapedArguments", "Lines", "escaped"]

LOGGERS: Final = (
    "sprocketmq.broker",
    "sprocketmq.cli",
    "sprocketmq.client",
    "sprocketmq.client.statistics",
    "sprocketmq.console",
    "sprocketmq.namesrv",
    "sprocketmq.net",
    "sprocketmq.slow",
    "sprocketmq.spark",
    "sprocketmq.store",
)
# Control characters, what else ends a line to some reader, what turns the direction of a text, and halves of characters.
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMATTER: Final = logging.Formatter()


class Lines(str):
    """A text of several lines that is ours, like a stack: it is told as it is."""

    __slots__ = ()


def escaped(text: str) -> str:
    """``text`` in one line: what could end it, or steer a terminal, as Python writes it in a string."""
    return _UNSAFE.sub(lambda match: repr(match[0])[1:-1], text)


class EscapedArguments(logging.Filter):
    """Changes records, holds none back. Idempotent: a record may pass it at its logger and again at a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, BaseException):
            record.msg = escaped(_text_of(record.msg) or type(record.msg).__name__)
        if isinstance(record.args, tuple):
            record.args = tuple([_safe(argument) for argument in record.args])
        elif record.args:
            record.args = {name: _safe(argument) for name, argument in record.args.items()}
        if record.exc_info and record.exc_text is None:
            record.exc_text = _traceback(record)
        return True


def _safe(argument: object) -> object:
    if isinstance(argument, (int, float, Lines)):
        return argument
    text = _text_of(argument)
    if text is None:
        return f"<{type(argument).__name__} without a text>"
    return argument if _UNSAFE.search(text) is None else escaped(text)


def _text_of(argument: object) -> str | None:
    """None for what cannot say its text: an exception of a listener may raise there, too, and no worker may end by that."""
    try:
        return str(argument)
    except Exception:  # noqa: BLE001 - whatever it is, the line is told without it
        return None


def _traceback(record: logging.LogRecord) -> str:
    """As a formatter would write it, but for the messages of the errors in it."""
    assert record.exc_info
    text, error = _FORMATTER.formatException(record.exc_info), record.exc_info[1]
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        message = _text_of(error)
        if message is not None and _UNSAFE.search(message) is not None:
            text = text.replace(message, escaped(message))
        waiting += [error.__cause__, error.__context__]
    return text


_FILTER: Final = EscapedArguments()
for _name in LOGGERS:
    logging.getLogger(_name).addFilter(_FILTER)
