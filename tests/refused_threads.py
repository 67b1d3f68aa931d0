# SPDX-License-Identifier: Apache-2.0
"""Threads that cannot be started, as in a process whose limit of threads or memory is used up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refused_threads(*prefixes: str) -> Iterator[list[str]]:
    """Threads whose names begin so cannot be started meanwhile; yields the names of those that were refused."""
    refused: list[str] = []
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name.startswith(prefixes):
            refused.append(self.name)
            raise RuntimeError("can't start new thread")
        start(self)

    threading.Thread.start = refuse  # type: ignore[method-assign]
    try:
        yield refused
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
