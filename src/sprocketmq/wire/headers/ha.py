# SPDX-License-Identifier: Apache-2.0
"""Headers of replication: code 906, and our own code 30001."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int64


class ExchangeHAInfoHeader(ExtHeader):
    """Code 906: it asks a master for its replication address, or with ``master_ha_address`` gives it to a slave."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class HandoverRequestHeader(ExtHeader):
    """Header of HANDOVER (30001, not in Apache), a step of giving a broker's messages to its slave: start, status, finish or cancel."""

    step: str
    timeout_ms: Int64 | None = None
