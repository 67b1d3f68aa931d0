# SPDX-License-Identifier: Apache-2.0
"""Values as text: numbers, times, sizes, rates. None is "unknown", never 0."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final

_PERMISSIONS: Final = {6: "read, write", 7: "read, write", 4: "read", 5: "read", 2: "write", 3: "write"}
_UNKNOWN: Final = "unknown"
_MOST_DIGITS: Final = 19


def number(value: float | None) -> str:
    """1,234 or 1,234.5."""
    if value is None:
        return _UNKNOWN
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def whole_number(text: str) -> int | None:
    """The number in ASCII digits; None for other text, or for more digits than 64 bits have."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def size(bytes_: int | None) -> str:
    """12 bytes, 3.4 KiB, 4.0 MiB."""
    if bytes_ is None:
        return _UNKNOWN
    if bytes_ < 1024:
        return f"{bytes_} bytes"
    scaled = float(bytes_)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        scaled /= 1024
        if scaled < 1024 or unit == "TiB":
            break
    return f"{scaled:,.1f} {unit}"


def percent(part: float | None) -> str:
    """0.85 as 85 %."""
    return _UNKNOWN if part is None else f"{part * 100:.0f} %"


def permission(perm: int) -> str:
    return _PERMISSIONS.get(perm, "neither read nor write")


def local_time(time_ms: int | None) -> str:
    """2026-11-24 06:12:31 UTC, in the zone of the console's machine."""
    if time_ms is None:
        return _UNKNOWN
    moment = _moment(time_ms, None)
    return _UNKNOWN if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S %Z")


def moment_ms(text: str) -> int | None:
    """Milliseconds since 1970 of such a number, or of a time in ISO 8601, by default in the zone of the console's machine."""
    try:
        number = whole_number(text)
        return int(datetime.fromisoformat(text).timestamp() * 1000) if number is None else number
    except (ValueError, OverflowError, OSError):
        return None


def iso_time(time_ms: int | None) -> str:
    moment = None if time_ms is None else _moment(time_ms, UTC)
    return "" if moment is None else moment.isoformat(timespec="milliseconds")


def _moment(time_ms: int, zone: tzinfo | None) -> datetime | None:
    """The time in ``zone``, by default the machine's. Returns None if it is out of range, because a message may contain any number."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return None


FILTERS: Final = {
    "number": number,
    "size": size,
    "percent": percent,
    "permission": permission,
    "local_time": local_time,
    "iso_time": iso_time,
}
"""By their names in templates."""
