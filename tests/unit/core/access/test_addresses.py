# SPDX-License-Identifier: Apache-2.0
"""White lists: each form that Apache's files use, and everything else refused in one sentence."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.access.addresses import AddressPattern, address_parts
from sprocketmq.errors import ConfigurationError


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["10.0.0.7", "fe80::7"], []),
        ("*.*.*.*", ["10.0.0.7", "fe80::7"], []),
        ("10.0.0.7", ["10.0.0.7", "::ffff:10.0.0.7"], ["10.0.0.70", "10.0.0.8", "fe80::7"]),
        ("10.0.0.7, 10.0.0.9", ["10.0.0.7", "10.0.0.9"], ["10.0.0.8"]),
        ("10.0.0.{7,9}", ["10.0.0.7", "10.0.0.9"], ["10.0.0.8", "10.0.0.79"]),
        ("10.0.*.*", ["10.0.0.7", "10.0.255.255"], ["10.1.0.7"]),
        ("10.0.1-9.*", ["10.0.1.0", "10.0.9.255"], ["10.0.0.7", "10.0.10.7"]),
        ("10.0.0.1-9", ["10.0.0.1", "10.0.0.9"], ["10.0.0.0", "10.0.0.10", "10.0.0.19"]),
        ("fe80::7", ["fe80::7", "FE80:0:0:0:0:0:0:7", "fe80::7%eth0"], ["fe80::8", "10.0.0.7"]),
        ("fe80::{7,9}", ["fe80::7", "fe80::9"], ["fe80::8"]),
        ("fe80::1-20:*", ["fe80::1:7", "fe80::20:ffff"], ["fe80::21:7", "fe80::7"]),
        ("", [], ["10.0.0.7", "", "somewhere"]),
        ("10.0.0.*", [], ["somewhere", "10.0.0", "fe80::10"]),
    ],
)
def test_a_pattern_matches_exactly_these_names(pattern, inside, outside):
    parsed = AddressPattern(pattern)
    assert [host for host in inside if not parsed.matches(host)] == []
    assert [host for host in outside if parsed.matches(host)] == []


@pytest.mark.parametrize(
    "pattern",
    ["10.0.0", "10.0.0.256", "10.0.0.9-1", "10.0.0.-1", "10.0.0.{1,300}", "10.0.0.7}", "{1,2}", "10.0.0.x", "1::2::3", "10.0.0.7,", "g::1",
     "1:2:3:4:5:6:7:8:9", "10.0.0.１"],
)  # fmt: skip
def test_other_values_are_refused_with_their_text(pattern):
    with pytest.raises(ConfigurationError, match="white address"):
        AddressPattern(pattern)


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_a_clear_refusal(text):
    with contextlib.suppress(ConfigurationError):
        AddressPattern(text).matches("10.0.0.7")


@given(st.ip_addresses())
def test_an_address_is_matched_by_itself_and_by_the_star_alone(address):
    assert address_parts(str(address)) is not None
    assert AddressPattern(str(address)).matches(str(address))
    assert AddressPattern("*").matches(str(address))
