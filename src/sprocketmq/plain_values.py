# SPDX-License-Identifier: Apache-2.0
"""Text and numbers of other classes than Python's own, taken by their value where they enter.

A member of ``class Topic(str, Enum)`` equals its text, and is formatted as ``Topic.ORDERS``; strings of ruamel.yaml, tomlkit and NumPy, and
``numpy.int64``, cannot be encoded as JSON. So each check of a name or number returns the plain value, and its caller goes on with that.
"""

from __future__ import annotations

import operator
from typing import Any


def plain_text(text: str) -> str:
    """The same characters as a ``str``."""
    return text if type(text) is str else str.__str__(text)


def plain_int(value: Any) -> Any:
    """The whole number that ``value`` is; other things, and bools, as they are."""
    if type(value) is int or isinstance(value, bool) or not hasattr(value, "__index__"):
        return value
    try:
        return int(operator.index(value))
    except TypeError:  # numpy.bool
        return value


def plain_value(value: Any) -> Any:
    """Text or a whole number as a plain one; other things as they are."""
    return plain_text(value) if isinstance(value, str) else plain_int(value)
