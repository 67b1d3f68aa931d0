"""Log lines of the servers, on stderr: plain text for eyes, or one JSON object a line for a log collector."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from sprocketmq.errors import ConfigurationError
from sprocketmq.logs import EscapedArguments

__all__ = ["LOG_FORMATS", "LOG_LEVELS", "JsonLines", "LogRateLimiter", "set_up_logging"]

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
_LINES_A_MINUTE: Final = 60
_LONGEST_MESSAGE: Final = 2_000


class JsonLines(logging.Formatter):
    """``{"time", "level", "logger", "message"}``, and ``exception`` with the traceback where there is one.

    ``time`` is UTC in ISO 8601 with milliseconds. What a caller adds with ``extra={"request_code": 10}`` stands beside them under its own
    name, so that a collector can count by it without taking the message apart.
    """

    _KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((name, value) for name, value in vars(record).items() if name not in self._KNOWN)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class LogRateLimiter(logging.Filter):
    """Keeps what peers do from filling the disk by way of the log.

    Laws
    1. Of the lines of one place in the code, at most ``lines_a_minute`` pass in a minute; the next one that passes says how many did not.
    2. A message is cut at 2,000 characters: names and texts of requests are part of it.
    """

    def __init__(self, lines_a_minute: int = _LINES_A_MINUTE) -> None:
        super().__init__()
        self._limit = lines_a_minute
        self._places: dict[
            tuple[str, int], list[float]
        ] = {}  # when its minute began, passed in it, held back since the last that passed

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = record.created
        place = self._places.setdefault((record.pathname, record.lineno), [now_s, 0, 0])
        if not 0 <= now_s - place[0] < 60:
            place[:2] = [now_s, 0]
        if place[1] >= self._limit:
            place[2] += 1
            return False
        place[1] += 1
        message = record.getMessage()
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[:_LONGEST_MESSAGE]}... ({len(message)} characters)"
        if place[2]:
            message += f" ({place[2]:.0f} more like it were left out)"
            place[2] = 0
        record.msg, record.args = message, None
        return True


class _CurrentStderrHandler(logging.StreamHandler[TextIO]):
    """Writes to whatever ``sys.stderr`` is at that moment: a live status line stands in for it while it is shown."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def set_up_logging(level: str, log_format: str = "text") -> None:
    """Log lines of ``level`` and above to stderr, as ``time level logger message`` or as JSON lines, in :class:`LogRateLimiter`.

    Raises:
        ConfigurationError: level or format is not one of those that exist.
    """
    if level.lower() not in LOG_LEVELS:
        raise ConfigurationError(f"--log-level is {level!r}, one of {', '.join(LOG_LEVELS)} is allowed")
    if log_format not in LOG_FORMATS:
        raise ConfigurationError(f"--log-format is {log_format!r}, one of {', '.join(LOG_FORMATS)} is allowed")
    handler = _CurrentStderrHandler()
    handler.addFilter(EscapedArguments())  # for asyncio's lines, and those of other libraries
    handler.addFilter(LogRateLimiter())
    handler.setFormatter(
        JsonLines() if log_format == "json" else logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
