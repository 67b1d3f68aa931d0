# SPDX-License-Identifier: Apache-2.0
"""What tests of power cuts have in common: settings under which nothing is synced but what must be, and the start after a cut."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sprocketmq.store.files import mapped_progress

if TYPE_CHECKING:
    from inproc.broker.conftest import Cluster, RawClient

NEVER_MS = 1 << 30
SETTINGS = {
    "flush_disk_type": "SYNC_FLUSH",
    "flush_interval_commit_log_ms": NEVER_MS,
    "flush_interval_consume_queue_ms": NEVER_MS,
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 1_000,
    "mapped_file_size_timer_log": 1_040,
    "sync_flush_timeout_ms": 60_000,
}


def start_after_the_cut(cluster: Cluster, image: Path, monkeypatch: pytest.MonkeyPatch) -> RawClient:
    """The broker of ``image`` takes the place of the one before, on a machine that was started anew."""
    mark = random.randbytes(16)
    monkeypatch.setattr(mapped_progress, "boot_mark", lambda: mark)
    cluster.store_dir = str(image)
    cluster.start_again()
    return cluster.client()
