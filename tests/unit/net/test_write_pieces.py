# SPDX-License-Identifier: Apache-2.0
"""Pieces that are written together: over TLS small ones leave as full records, without it as they are."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.net.output.write_pieces import full_records, portions, write_pieces

RECORD_BYTES = 16 * 1024
SIZES = st.one_of(st.integers(0, 700), st.integers(16_000, 17_000), st.integers(0, 100_000))


class Written(asyncio.Transport):
    def __init__(self, sslcontext: object) -> None:
        super().__init__({"sslcontext": sslcontext})
        self.pieces: list[Any] = []

    def writelines(self, list_of_data: Any) -> None:
        self.pieces += list_of_data

    def get_write_buffer_size(self) -> int:
        return 0


@given(st.lists(SIZES, max_size=80))
def test_full_records_are_the_same_bytes_and_few(sizes):
    pieces = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    records = list(full_records(map(memoryview, pieces)))
    assert b"".join(records) == b"".join(pieces)
    for record, following in pairwise(records):
        assert max(len(record), len(following)) >= RECORD_BYTES
    assert sum(isinstance(record, memoryview) for record in records) == sum(size >= RECORD_BYTES for size in sizes)
    assert all(isinstance(record, memoryview) or len(record) < 2 * RECORD_BYTES for record in records)


@given(st.lists(st.integers(0, 400_000), max_size=20))
def test_portions_are_the_same_bytes_and_none_is_large(sizes):
    pieces = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    found = list(portions(pieces))
    assert b"".join(b"".join(portion) for portion in found) == b"".join(pieces)
    assert all(sum(map(len, portion)) <= 5 * RECORD_BYTES for portion in found)
    for portion, following in pairwise(found):
        assert sum(map(len, portion)) + len(following[0]) > 5 * RECORD_BYTES


@pytest.mark.parametrize(("context", "count"), [(None, 64), (object(), 2)])
def test_64_requests_are_two_records_over_tls_and_are_not_copied_without_it(context, count):
    transport = Written(context)
    write_pieces(transport, [b"x" * 400] * 64, 65_536, is_paused=False)
    assert b"".join(transport.pieces) == b"x" * 400 * 64
    assert len(transport.pieces) == count
