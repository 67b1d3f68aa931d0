# SPDX-License-Identifier: Apache-2.0
"""The properties of many messages as columns, without a Python object per message.

A text is ``name \\x01 value \\x02`` again and again. Of names that repeat the last value counts and the first place, as in a Python dict;
pairs without name or value do not count (``wire.records.properties.decode_properties``). Texts are read in one of two ways:

By shape (``property_shapes``). Producers repeat themselves: the names stay, and values such as keys and ids mostly keep their length. So
texts fall into few *shapes*: size, names, places of the separators. Of one shape the first text is the template; the others are compared
with it as words, names and separators alone. A value is then known by its place, and a column of it is a copy of a block of bytes.

By separators (``property_pairs``), if there are many shapes. The positions of both separators, found over the whole batch at once, are the
ends of all names and values; names are encoded as a dictionary. This takes any texts, at about half the speed.

Both give the same columns for all texts (the tests hold them against each other and against reading one text after the other).
"""

from __future__ import annotations

from typing import Any, Protocol

from sprocketmq.spark.columns.property_pairs import PairedProperties
from sprocketmq.spark.columns.property_shapes import ShapedProperties, shapes_of
from sprocketmq.spark.columns.property_texts import texts_of

Array = Any  # pyarrow has no type information


class PropertyColumns(Protocol):
    def column(self, name: str) -> Array:
        """One property of all messages, null where a message has it not."""

    def maps(self, kind: Any) -> Array:
        """All properties of all messages; ``kind`` is the Arrow type of a map of strings."""


def property_columns(data: Any, starts: Any, sizes: Any) -> PropertyColumns:
    """The texts at ``starts`` of ``data``, behind whose last one ``SPARE_BYTES`` follow."""
    texts = texts_of(data, starts, sizes)
    shapes = shapes_of(texts)
    return PairedProperties(texts) if shapes is None else ShapedProperties(len(starts), shapes)
