"""Log lines of the servers, on stderr: plain text for eyes, or one JSON object a line for a log collector."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from typing import TextIO

from sprocketmq.errors import ConfigurationError

__all__ = ["LOG_FORMATS", "LOG_LEVELS", "JsonLines", "set_up_logging"]

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")


class JsonLines(logging.Formatter):
    """``{"time", "level", "logger", "message"}``, and ``exception`` with the traceback where there is one.

    ``time`` is UTC in ISO 8601 with milliseconds. What a caller adds with ``extra={"request_code": 10}`` stands beside them under its own
    name, so that a collector can count by it without taking the message apart.
    """

    _KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((name, value) for name, value in vars(record).items() if name not in self._KNOWN)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class _StderrNow(logging.StreamHandler[TextIO]):
    """Writes to whatever ``sys.stderr`` is at that moment: a live status line stands in for it while it is shown."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def set_up_logging(level: str, log_format: str = "text") -> None:
    """Log lines of ``level`` and above to stderr, as ``time level logger message`` or as JSON lines.

    Raises:
        ConfigurationError: level or format is not one of those that exist.
    """
    if level.lower() not in LOG_LEVELS:
        raise ConfigurationError(f"--log-level is {level!r}, one of {', '.join(LOG_LEVELS)} is allowed")
    if log_format not in LOG_FORMATS:
        raise ConfigurationError(f"--log-format is {log_format!r}, one of {', '.join(LOG_FORMATS)} is allowed")
    handler = _StderrNow()
    handler.setFormatter(
        JsonLines() if log_format == "json" else logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
