# SPDX-License-Identifier: Apache-2.0
"""Splits the keyword options of a public class into those of every client and those of this class; an unknown one raises an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sprocketmq.calls import hint
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.errors import ConfigurationError

__all__ = ["split_options"]


def split_options(
    given: Mapping[str, object], client_options: type[ClientOptions], settings: type[msgspec.Struct] | None, what: str
) -> tuple[ClientOptions, dict[str, Any]]:
    """The ClientOptions among ``given``, and the rest for ``settings``.

    Raises:
        ConfigurationError: a name is neither's; the sentence suggests the nearest one.
    """
    own = set(client_options.__struct_fields__)
    others = set(settings.__struct_fields__) - {"group"} if settings is not None else set()
    for name in given:
        if name not in own and name not in others:
            raise ConfigurationError(f"{what} has no option {name!r}; {hint(name, own | others)}")
    mine: dict[str, Any] = {name: value for name, value in given.items() if name in own}
    return client_options(**mine), {name: value for name, value in given.items() if name in others}
