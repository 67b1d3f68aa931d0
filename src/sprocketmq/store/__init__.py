# SPDX-License-Identifier: Apache-2.0
"""The store of a broker's messages: in the directory format of Apache RocketMQ, or in memory. Start at ``message_store``."""

import sprocketmq.logs  # noqa: F401 - escapes text of peers in log lines
from sprocketmq.store.disk_message_store import DiskMessageStore
from sprocketmq.store.message_store import MessageStore
from sprocketmq.store.store_config import FlushDiskType, StoreConfig
from sprocketmq.store.stored_message import (
    AppendResult,
    BatchAppendResult,
    IndexHits,
    ReadResult,
    ReadStatus,
    StoredBatch,
    StoredMessage,
    Unit,
)

__all__ = [
    "AppendResult",
    "BatchAppendResult",
    "DiskMessageStore",
    "FlushDiskType",
    "IndexHits",
    "MessageStore",
    "ReadResult",
    "ReadStatus",
    "StoreConfig",
    "StoredBatch",
    "StoredMessage",
    "Unit",
]
