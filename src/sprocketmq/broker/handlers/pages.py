# SPDX-License-Identifier: Apache-2.0
"""Pages of a table, as tools and slaves of 5.x request topics and groups (codes 21 and 201). Java: subTopicConfigTable, subGroupTable.

A page begins at a sequence number of the names in their order. The number is valid for one state of the table. A caller that names another
state (dataVersion), or none, begins again at the first name, so that it never misses a row that was inserted before its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.bodies import DataVersion

V = TypeVar("V")


def page_of(
    table: Mapping[str, V], version: DataVersion, first: int | None, wanted: str | None, most: int
) -> dict[str, V]:
    """Up to ``most`` rows from number ``first`` on; from 0 on if ``wanted`` is not the present state of the table. Raises
    ProtocolError: the first number is missing or negative; or ``wanted`` is not a state."""
    if first is None or first < 0 or most < 1:
        raise ProtocolError(
            f"a page from {first} of {most} rows is asked for, a page from 0 of 1 row or more is allowed"
        )
    if not (wanted or "").strip() or DataVersion.of_request((wanted or "").encode()) != version:
        first = 0
    return {name: table[name] for name in sorted(table)[first : first + most]}
