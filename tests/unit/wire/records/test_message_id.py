# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records.message_id import (
    decode_offset_message_id,
    offset_message_id,
    unique_key_after,
    unique_key_prefix,
)

_ips = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)


def test_an_offset_message_id_is_the_known_text():
    known = "0A00000100002A9F000000000001E240"
    assert offset_message_id((bytes([10, 0, 0, 1]), 10911), 123456) == known
    assert decode_offset_message_id(known) == ((bytes([10, 0, 0, 1]), 10911), 123456)
    assert decode_offset_message_id(known.lower())[1] == 123456


@given(_ips, st.integers(0, 65535), st.integers(0, 2**63 - 1))
def test_an_offset_message_id_comes_back(ip, port, offset):
    text = offset_message_id((ip, port), offset)
    assert len(text) == (32 if len(ip) == 4 else 56)
    assert decode_offset_message_id(text) == ((ip, port), offset)


@pytest.mark.parametrize("text", ["", "x", "0A" * 15, "0G" * 16, "0A 0" + "0" * 28, "FF" * 16, "7F" * 28])
def test_an_invalid_offset_message_id_is_a_configuration_error(text):
    with pytest.raises(ConfigurationError):
        decode_offset_message_id(text)


def test_a_unique_key_is_the_known_text():
    key = unique_key_after(
        unique_key_prefix(bytes([10, 0, 0, 1]), 0x12345, 0x18B4AAC2), 1_000_000_255, 1_000_000_000, 0x10007
    )
    assert key == "0A000001" + "2345" + "18B4AAC2" + "000000FF" + "0007"


@given(_ips, st.integers(0, 2**31), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**40))
def test_a_unique_key_is_its_prefix_and_the_rest(ip, pid, loader, span, counter):
    key = unique_key_after(unique_key_prefix(ip, pid, loader), 5_000_000_000 + span, 5_000_000_000, counter)
    assert len(key) == (32 if len(ip) == 4 else 56)
    assert bytes.fromhex(key)[-6:-2] == span.to_bytes(4, "big")


def test_a_clock_set_back_over_the_months_start_counts_as_the_start():
    assert unique_key_after("", 999, 1000, 1) == "00000000" + "0001"
