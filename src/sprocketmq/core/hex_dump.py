# SPDX-License-Identifier: Apache-2.0
"""Bytes as hexadecimal digits and characters, sixteen in a line, as ``hexdump -C`` prints them."""

from __future__ import annotations


def hex_dump(body: bytes) -> str:
    """Lines of offset, hexadecimal digits and printable ASCII characters; other bytes are shown as ``.``."""
    lines = []
    for start in range(0, len(body), 16):
        part = body[start : start + 16]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {characters}")
    return "\n".join(lines)
