# SPDX-License-Identifier: Apache-2.0
"""Patterns of peer addresses in white lists (Java: RemoteAddressStrategyFactory).

    *   *.*.*.*   *:*:*:*:*:*:*:*          all addresses; no text: none
    10.0.0.7,10.0.0.8   fe80::7            these
    10.0.0.{7,8}   fe80::{7,8}             several by their last part
    10.0.*.*   10.0.1-9.*   fe80::1-20:*   ranges of parts; a range or ``*`` may stand for any part

Apache only checks the first range and accepts any number behind it; here each part counts, which is narrower unless all later parts are
``*``. An IPv4-mapped IPv6 address (::ffff:10.0.0.7) is matched as the IPv4 address."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from sprocketmq.errors import ConfigurationError

_EVERYBODY = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})

Ranges = tuple[tuple[int, int], ...]


@lru_cache(maxsize=4096)
def address_parts(host: str) -> tuple[int, ...] | None:
    """The 4 numbers of an IPv4 address or the 8 of an IPv6 address; None: it is not an address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if address.version == 6:
        if address.ipv4_mapped is not None:
            return tuple(address.ipv4_mapped.packed)
        packed = address.packed
        return tuple(packed[i] << 8 | packed[i + 1] for i in range(0, 16, 2))
    return tuple(address.packed)


class AddressPattern:
    """One entry of a white list; ``text`` as in the docstring of the module. Raises ConfigurationError."""

    def __init__(self, text: str) -> None:
        self.text = text = text.strip()
        self.matches_all = text in _EVERYBODY
        self._alternatives: list[Ranges] = []
        if text and not self.matches_all:
            self._alternatives = [_ranges(one, text) for one in _spelled_out(text)]

    def matches(self, host: str) -> bool:
        if self.matches_all:
            return True
        if not self._alternatives:
            return False
        parts = address_parts(host)
        if parts is None:
            return False
        return any(
            len(ranges) == len(parts)
            and all(low <= part <= high for part, (low, high) in zip(parts, ranges, strict=True))
            for ranges in self._alternatives
        )

    def __repr__(self) -> str:
        return f"AddressPattern({self.text!r})"


def address_patterns(text: str, key: str) -> list[AddressPattern]:
    """The patterns in a setting, joined by ``;``. Raises ConfigurationError: a pattern is invalid; the error names the setting."""
    try:
        return [AddressPattern(one) for one in text.split(";") if one.strip()]
    except ConfigurationError as error:
        raise ConfigurationError(f"{key} is wrong: {error}") from error


def _spelled_out(text: str) -> list[str]:
    if text.endswith("}"):
        head, brace, last = text.partition("{")
        if not brace or head[-1:] not in (".", ":"):
            raise _malformed(text)
        return [head + one.strip() for one in last[:-1].split(",")]
    return [one.strip() for one in text.split(",")]


def _ranges(address: str, text: str) -> Ranges:
    exact = address_parts(address)
    if exact is not None:
        return tuple((part, part) for part in exact)
    is_v6 = ":" in address
    parts = _v6_parts(address, text) if is_v6 else address.split(".")
    if len(parts) != (8 if is_v6 else 4):
        raise _malformed(text)
    return tuple(_range(part.strip(), 16 if is_v6 else 10, 0xFFFF if is_v6 else 255, text) for part in parts)


def _v6_parts(address: str, text: str) -> list[str]:
    head, gap, tail = address.partition("::")
    if not gap:
        return address.split(":")
    before = head.split(":") if head else []
    after = tail.split(":") if tail else []
    missing = 8 - len(before) - len(after)
    if missing < 1 or "::" in tail:
        raise _malformed(text)
    return [*before, *["0"] * missing, *after]


def _range(part: str, base: int, top: int, text: str) -> tuple[int, int]:
    if part == "*":
        return 0, top
    low_text, dash, high_text = part.partition("-")
    digits = "0123456789abcdefABCDEF"[: 10 if base == 10 else None]
    for number in (low_text, high_text if dash else low_text):
        if not number or any(digit not in digits for digit in number):
            raise _malformed(text)
    low = int(low_text, base)
    high = int(high_text, base) if dash else low
    if not low <= high <= top:
        raise _malformed(text)
    return low, high


def _malformed(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"the white address is {text!r}, forms like 10.0.0.7, 10.0.*.*, 10.0.0.1-9, 10.0.0.{{7,8}}, fe80::7 or * are allowed"
    )
