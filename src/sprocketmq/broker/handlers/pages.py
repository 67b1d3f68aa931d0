# SPDX-License-Identifier: Apache-2.0
"""Pages of a table, as tools and slaves of 5.x request topics and groups (Java: subTopicConfigTable). A page begins at a number that is
valid for one state of the table; who names another state (dataVersion) begins again, so that no row is missed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.bodies import DataVersion

V = TypeVar("V")


def page_of(
    table: Mapping[str, V], version: DataVersion, first: int | None, wanted: str | None, most: int
) -> dict[str, V]:
    """Up to ``most`` rows from number ``first`` on; from 0 if ``wanted`` is not the table's state. Raises ProtocolError."""
    if first is None or first < 0 or most < 1:
        raise ProtocolError(
            f"a page from {first} of {most} rows is asked for, a page from 0 of 1 row or more is allowed"
        )
    if not (wanted or "").strip() or DataVersion.of_request((wanted or "").encode()) != version:
        first = 0
    return {name: table[name] for name in sorted(table)[first : first + most]}
