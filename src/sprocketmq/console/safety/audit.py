# SPDX-License-Identifier: Apache-2.0
"""The audit log: one line before each change, and one with its result afterwards.

    {"at": "2026-11-24T06:12:31.204+00:00", "stage": "begins", "change": 7, "action": "send", "session": 2, "peer": "127.0.0.1", ...}
    {"at": "2026-11-24T06:12:31.226+00:00", "stage": "ended", "change": 7, "outcome": "stored in orders/broker-a/0 at offset 12"}

A change is not made if its line cannot be written. Of bodies only size and SHA-256 are written.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sprocketmq.errors import ConfigurationError, StoreNotWritable

log = logging.getLogger("sprocketmq.console")

_OWNER_ONLY: Final = 0o600


class Audit:
    """``path``: None: changes are only logged. ``account``: the access key of the console's requests. Raises ConfigurationError (the
    file cannot be written)."""

    def __init__(self, path: Path | None, now_ms: Callable[[], int], account: str | None) -> None:
        self._path, self._now_ms, self._account = path, now_ms, account
        self._count = 0
        self._is_torn = False
        if path is not None:
            try:
                self._append(b"")
            except OSError as error:
                raise ConfigurationError(
                    f"the audit file is {str(path)!r}, which cannot be written ({error.strerror}); give another --audit-file"
                ) from error

    def begins(self, action: str, session: int, peer: str, **facts: Any) -> int:
        """Write the line of a change that is about to be made; return the number for ``ended``. Both raise StoreNotWritable."""
        self._count += 1
        self._write(
            stage="begins",
            change=self._count,
            action=action,
            session=session,
            peer=peer,
            **{"as": self._account},
            **facts,
        )
        return self._count

    def ended(self, change: int, outcome: str) -> None:
        self._write(stage="ended", change=change, outcome=outcome)

    def _write(self, **line: Any) -> None:
        at = datetime.fromtimestamp(self._now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        text = json.dumps({"at": at, **line})  # ASCII, so the text contains no line break
        log.info("audit %s", text)
        if self._path is not None:
            try:
                self._append(f"{text}\n".encode())
            except OSError as error:
                raise StoreNotWritable(
                    f"the audit file {str(self._path)!r} cannot be written ({error.strerror}), so nothing is changed"
                ) from error

    def _append(self, line: bytes) -> None:
        assert self._path is not None
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _OWNER_ONLY)
        try:
            if self._is_torn:
                line = b"\n" + line
            # On a full disk, write may store only a part of the line, and return its length instead of raising an error.
            written = os.write(file, line) if line else 0
            self._is_torn = 0 < written < len(line) or (self._is_torn and written == 0)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(file)
