# SPDX-License-Identifier: Apache-2.0
"""Each setting of broker, name server and store alone, beside the defaults of all others: it is taken, or the sentence names the setting
that is in the way. Another setting is in the way if a change of it lets the value pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from sprocketmq.broker.settings.config import BrokerConfig, NameServerConfig
from sprocketmq.errors import ConfigurationError
from sprocketmq.store import StoreConfig

NUMBERS: Final = (-1, 0, 1, 2, 100, 65_535, 65_536, 2**20, 2**30, 2**31 - 1, 2**62)


class Setting(NamedTuple):
    """``key``: as sentences name it."""

    name: str
    key: str
    values: tuple[Any, ...]


def settings_of(kind: Any) -> list[Setting]:
    defaults = kind()
    if dataclasses.is_dataclass(kind):
        keys = {field.name: field.encode_name for field in msgspec.structs.fields(BrokerConfig)}
        found = [
            (field.name, keys.get(field.name, field.name), type(getattr(defaults, field.name)))
            for field in dataclasses.fields(kind)
        ]
    else:
        found = [(field.name, field.encode_name, field.type) for field in msgspec.structs.fields(kind)]
    return [Setting(name, key, tuple(values(of, getattr(defaults, name)))) for name, key, of in found]


def values(of: Any, default: Any) -> Iterator[Any]:
    """Edges, those that are beyond what is allowed, too."""
    kinds = getattr(of, "__args__", (of,))
    if bool in kinds:
        yield from (True, False)
    elif all(isinstance(word, str) for word in kinds):
        yield from kinds
    elif int in kinds:
        yield from NUMBERS
        if isinstance(default, int):
            yield from (default // 2, default - 1, default + 1, 2 * default)
    elif float in kinds:
        yield from (0.0, 0.5, 1.0, 100.0)


def refused(kind: Any, **given: Any) -> str:
    try:
        kind(**given)
    except ConfigurationError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BrokerConfig, NameServerConfig, StoreConfig])
def test_a_refusal_names_the_setting_that_is_in_the_way(kind: Any) -> None:
    settings = settings_of(kind)
    taken = {
        one.name: [value for value in one.values if not refused(kind, **{one.name: value})][-2:] for one in settings
    }
    in_the_way = set()
    for one in settings:
        for value in one.values:
            sentence = refused(kind, **{one.name: value})
            assert not sentence or one.key in sentence, sentence
            for other in settings if sentence else ():
                if other is not one and any(
                    not refused(kind, **{one.name: value, other.name: beside}) for beside in taken[other.name]
                ):
                    in_the_way.add((one.name, other.name))
                    assert other.key in sentence, sentence
    expected = {("authorization_enabled", "authentication_enabled")} if kind is BrokerConfig else set()
    assert in_the_way == expected
