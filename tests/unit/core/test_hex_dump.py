# SPDX-License-Identifier: Apache-2.0
"""Bytes as ``hexdump -C`` prints them, without its bars."""

from __future__ import annotations

from sprocketmq.core.hex_dump import hex_dump


def test_each_line_has_sixteen_bytes_with_their_offset_and_characters():
    assert hex_dump(b"") == ""
    assert hex_dump(b"flight UA1714\x00\xff~\n") == (
        f"00000000  66 6c 69 67 68 74 20 55 41 31 37 31 34 00 ff 7e  flight UA1714..~\n00000010  {'0a':<47}  ."
    )
