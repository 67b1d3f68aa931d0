# SPDX-License-Identifier: Apache-2.0
"""Texts from peers cannot add lines to the log: a filter on each of this package's loggers escapes line breaks in the arguments of
records, so it works with all handlers of an application. A package that logs imports this module in its ``__init__``, and its loggers
are listed here; a test checks both. A stack that is logged on purpose is an argument of type :class:`Lines`."""

from __future__ import annotations

import logging
import re
from typing import Final

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
# Control characters, other line separators, characters that change the direction of text, and lone surrogates.
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMATTER: Final = logging.Formatter()


class Lines(str):
    """A text of several lines that did not come from a peer, such as a stack; it is not escaped."""

    __slots__ = ()


def escaped(text: str) -> str:
    """``text`` as one line: line breaks and control characters are escaped as in a Python string."""
    return _UNSAFE.sub(lambda match: repr(match[0])[1:-1], text)


class EscapedArguments(logging.Filter):
    """Escapes the arguments of records; lets all records pass. Idempotent, because a record may pass it at a logger and at a handler."""

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
    """The text of ``argument``; None if ``str`` raises, which must not end a worker."""
    try:
        return str(argument)
    except Exception:  # noqa: BLE001 - the line is logged without it
        return None


def _traceback(record: logging.LogRecord) -> str:
    """The traceback as a formatter writes it, with escaped messages of the exceptions."""
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
