"""Headers of replication: code 906, and our own code 30001."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int64

__all__ = ["ExchangeHAInfoHeader", "HandoverRequestHeader"]


class ExchangeHAInfoHeader(ExtHeader):
    """Code 906 and its answer: without ``master_ha_address`` a question to a master, with it news for a slave."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class HandoverRequestHeader(ExtHeader):
    """Code 30001, ours: one step of giving a broker's messages to its slave. ``step`` is start, status, finish or cancel."""

    step: str
    timeout_ms: Int64 | None = None
