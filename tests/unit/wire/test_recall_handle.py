# SPDX-License-Identifier: Apache-2.0
"""The handle of a message that can be taken back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.recall_handle import RecallHandle

WORDS = st.text(st.characters(codec="utf-8", exclude_characters=" "), min_size=1, max_size=40)


def test_a_handle_is_apaches_padded_base64():
    handle = RecallHandle("flights", "broker-a", "1700000001001", "7F000001000018B4AAC2")
    assert handle.encode() == "djEgZmxpZ2h0cyBicm9rZXItYSAxNzAwMDAwMDAxMDAxIDdGMDAwMDAxMDAwMDE4QjRBQUMy"
    assert RecallHandle.decode(handle.encode()) == handle


@given(st.builds(RecallHandle, WORDS, WORDS, WORDS, WORDS))
def test_a_handle_reads_back_with_and_without_its_padding(handle):
    assert RecallHandle.decode(handle.encode()) == handle
    assert RecallHandle.decode(handle.encode().rstrip("=")) == handle


@pytest.mark.parametrize(
    "handle", ["", "=", "abc def", "djE", "djIgYSBiIGMgZA==", "ä", "djEgYSBi", "a" * 10_000, "+/+/"]
)
def test_an_invalid_handle_is_refused_with_one_sentence(handle):
    with pytest.raises(ProtocolError):
        RecallHandle.decode(handle)
