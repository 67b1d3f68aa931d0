# SPDX-License-Identifier: Apache-2.0
"""What is said of an exception that somebody else's code raised."""

from __future__ import annotations

import pytest

from sprocketmq.client.settings.values import serialized, use_deserializers
from sprocketmq.errors import ConfigurationError, ValueDeserializationError, described
from sprocketmq.wire.records.message import MessageExt


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_is_described_by_type_and_text() -> None:
    assert described(ValueError("out of money")) == "ValueError: out of money"


def test_an_exception_whose_text_raises_is_described_all_the_same() -> None:
    assert described(Unspeakable()) == "Unspeakable: its text cannot be had (RuntimeError)"


def fails(value: object) -> bytes:
    raise Unspeakable


def test_a_value_whose_function_raises_it_has_a_sentence() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be serialized \(int\): Unspeakable: its text cannot be had"):
        serialized(fails, "flights", 7, "the producer")
    message = MessageExt("flights", b"x")
    use_deserializers(fails, [message])
    with pytest.raises(ValueDeserializationError, match=r"cannot be deserialized: Unspeakable: its text cannot be had"):
        _ = message.value
