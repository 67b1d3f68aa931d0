# SPDX-License-Identifier: Apache-2.0
"""Log lines of the servers on stderr: plain text, or one JSON object for each line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from sprocketmq.errors import ConfigurationError
from sprocketmq.logs import EscapedArguments

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
_LINES_A_MINUTE: Final = 60
_LONGEST_MESSAGE: Final = 2_000


class JsonLines(logging.Formatter):
    """``time`` is UTC. Values that a caller adds, such as ``extra={"request_code": 10}``, are further keys."""

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
    """So that misbehaving peers cannot fill the disk, at most ``_LINES_A_MINUTE`` of one place in the code pass in a minute, and the next
    that passes says how many were left out. A message, which may contain long names, is cut at 2,000 characters."""

    def __init__(self) -> None:
        super().__init__()
        # path and line -> when its minute began, lines passed in that minute, lines left out since the last one that passed
        self._places: dict[tuple[str, int], list[float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = record.created
        place = self._places.setdefault((record.pathname, record.lineno), [now_s, 0, 0])
        if not 0 <= now_s - place[0] < 60:
            place[:2] = [now_s, 0]
        if place[1] >= _LINES_A_MINUTE:
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
    """Writes to the current ``sys.stderr``, which the status line replaces while it is shown."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def set_up_logging(level: str, log_format: str = "text", *, limited: bool = True) -> None:
    """Log to stderr from ``level`` on, as text (``time level logger message``) or as JSON lines. ``limited``: by LogRateLimiter."""
    if level.lower() not in LOG_LEVELS:
        raise ConfigurationError(f"--log-level is {level!r}, one of {', '.join(LOG_LEVELS)} is allowed")
    if log_format not in LOG_FORMATS:
        raise ConfigurationError(f"--log-format is {log_format!r}, one of {', '.join(LOG_FORMATS)} is allowed")
    handler = _CurrentStderrHandler()
    handler.addFilter(EscapedArguments())  # for asyncio's lines, and those of other libraries
    if limited:
        handler.addFilter(LogRateLimiter())
    handler.setFormatter(
        JsonLines() if log_format == "json" else logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
