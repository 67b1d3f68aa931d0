# SPDX-License-Identifier: Apache-2.0
"""Headers of looking up stored messages: codes 12 and 33."""

from __future__ import annotations

from typing import Final

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64

# An additional ext field of QUERY_MESSAGE (12): the key is a UNIQ_KEY (MixAll.UNIQUE_MSG_QUERY_FLAG).
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"


class QueryMessageRequestHeader(ExtHeader):
    """Header of QUERY_MESSAGE (12): find messages of ``topic`` by index key that were stored between the two times (ms)."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    index_type: str | None = None  # 5.4: K key, U unique key, T tags
    last_key: str | None = None


class QueryMessageResponseHeader(ExtHeader):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequestHeader(ExtHeader):
    """Header of VIEW_MESSAGE_BY_ID (33): get the record at commit log ``offset``."""

    offset: Int64
    topic: str | None = None
