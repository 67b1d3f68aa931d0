# SPDX-License-Identifier: Apache-2.0
"""The fields of a stored record beside its topic, body and properties: some, and any."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

STORED: dict[str, Any] = {
    "queue_id": 2,
    "queue_offset": 7,
    "physical_offset": 123456,
    "born_timestamp_ms": 1700000000000,
    "born_host": (bytes([10, 0, 0, 2]), 50000),
    "store_timestamp_ms": 1700000000001,
    "store_host": (bytes([10, 0, 0, 1]), 10911),
}
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.tuples(st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 65535))
ANY_FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        **dict.fromkeys(("queue_id", "flag", "sys_flag", "reconsume_times"), INT32),
        **dict.fromkeys(("queue_offset", "physical_offset", "prepared_transaction_offset"), INT64),
        **dict.fromkeys(("born_timestamp_ms", "store_timestamp_ms"), INT64),
        **dict.fromkeys(("born_host", "store_host"), HOSTS),
    }
)
