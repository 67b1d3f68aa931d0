# SPDX-License-Identifier: Apache-2.0
"""The properties of many messages as columns, without a Python object per message. A text is ``name \\x01 value \\x02`` again and again
(``wire.records.properties.decode_properties``). Texts are read in one of two ways (docs/decisions/0044-two-ways-that-remain.md):

By template (``property_templates``). Producers repeat themselves: names stay, and values such as keys and ids mostly keep their length. So
of texts that are alike (size, names, places of the separators) the first is the template; the others are compared with it as words, names
and separators alone. A value is then known by its place, and a column of it is a copy of a block of bytes.

By separators (``property_separators``), if few texts are alike. The positions of both separators, found over the whole batch at once, are
the ends of all names and values. This takes any texts, at about half the speed.
"""

from __future__ import annotations

from sprocketmq.spark.columns.byte_columns import Bytes, Numbers
from sprocketmq.spark.columns.property_separators import PropertiesBySeparator
from sprocketmq.spark.columns.property_templates import PropertiesByTemplate, alike_texts
from sprocketmq.spark.columns.property_texts import texts_of

# Both have ``column(name)``, one property of all messages, null where a message has it not, and ``maps(kind)``, all properties of all
# messages; ``kind`` is the Arrow type of a map of strings.
PropertyColumns = PropertiesByTemplate | PropertiesBySeparator


def property_columns(data: Bytes, starts: Numbers, sizes: Numbers) -> PropertyColumns:
    """The texts at ``starts`` of ``data``, behind whose last one ``SPARE_BYTES`` follow."""
    texts = texts_of(data, starts, sizes)
    alike = alike_texts(texts)
    return PropertiesBySeparator(texts) if alike is None else PropertiesByTemplate(len(starts), alike)
