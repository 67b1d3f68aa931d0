# SPDX-License-Identifier: Apache-2.0
"""The two ids of a message (Java: MessageClientIDSetter, MessageDecoder.createMessageId).

unique key (UNIQ_KEY)   set by the sender, the same in all retries: hex of ip (4 or 16), pid i16, class-loader hash i32,
                        ms since the first of the local month i32, counter i16
offset message id       of one stored copy: hex of store ip (4 or 16), port i32, commit log offset i64
"""

from __future__ import annotations

from typing import Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.layout import Layout
from sprocketmq.wire.records.record_layout import IPV4_BYTES, IPV6_BYTES

_UNIQUE_PREFIX: Final = Layout(("pid", "H"), ("class_loader_hash", "I")).struct
_OFFSET_TAIL: Final = Layout(("port", "I"), ("offset", "q")).struct  # behind the address
_OFFSET_ID_BYTES: Final = (IPV4_BYTES + _OFFSET_TAIL.size, IPV6_BYTES + _OFFSET_TAIL.size)


def unique_key_prefix(ip: bytes, pid: int, class_loader_hash: int) -> str:
    """The part of a unique key that is constant in a process. ``ip``: 4 or 16 address bytes of this machine. ``pid``: 16 bits of it are
    used. ``class_loader_hash``: any number that stays the same in this process."""
    return (ip + _UNIQUE_PREFIX.pack(pid & 0xFFFF, class_loader_hash & 0xFFFFFFFF)).hex().upper()


def unique_key_after(prefix: str, now_ms: int, month_start_ms: int, counter: int) -> str:
    """One unique key: 32 characters for IPv4, 56 for IPv6. A time up to 1000 s before the month's start is taken as its start, because a
    clock may be set back. ``month_start_ms``: local midnight of the first; the caller updates it. ``counter``: number of the message in
    this process; wraps at 16 bits."""
    span = now_ms - month_start_ms
    if -1_000_000 < span < 0:
        span = 0
    return f"{prefix}{span & 0xFFFFFFFF:08X}{counter & 0xFFFF:04X}"


def offset_message_id(host: tuple[bytes, int], offset: int) -> str:
    """Return the id of the record at commit log ``offset`` of the broker at ``host`` (address bytes, port)."""
    address, port = host
    return (address + _OFFSET_TAIL.pack(port, offset)).hex().upper()


def decode_offset_message_id(message_id: str) -> tuple[tuple[bytes, int], int]:
    """``((address bytes, port), commit log offset)``. Raises ConfigurationError: not an offset message id. A unique key has the same
    form, but is looked up in the index."""
    try:
        raw = bytes.fromhex(message_id)
    except ValueError:
        raw = b""
    if len(raw) not in _OFFSET_ID_BYTES or any(blank in message_id for blank in " \t\r\n"):
        raise ConfigurationError(
            f"{message_id!r} is not an offset message id, which is 32 (IPv4) or 56 (IPv6) hexadecimal digits"
        )
    port, offset = _OFFSET_TAIL.unpack_from(raw, len(raw) - _OFFSET_TAIL.size)
    if port > 0xFFFF or offset < 0:
        raise ConfigurationError(
            f"{message_id!r} holds port {port} and offset {offset}, which no broker has; is it a unique key (UNIQ_KEY)?"
        )
    return (raw[: -_OFFSET_TAIL.size], port), offset
