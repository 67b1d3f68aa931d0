# SPDX-License-Identifier: Apache-2.0
"""The layout of a message record, from which all code that reads or writes records is derived (Java: CommitLog).

    fixed fields | body | topic length, topic | properties length, properties

A host has 4 or 16 address bytes, according to its bit of sysFlag, which moves all fields behind it; so there are four layouts. The
topic's length has one byte, or two with magic V2, for topics longer than 127 bytes, which 4.9 does not know. A blank ends a commit log
file: the number of remaining bytes in place of the size, and ``MAGIC_BLANK``.
"""

from __future__ import annotations

from typing import Final

from sprocketmq.wire.layout import Layout
from sprocketmq.wire.records.sys_flag import BORNHOST_V6, STOREHOSTADDRESS_V6

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194

IPV4_BYTES: Final = 4
IPV6_BYTES: Final = 16

# Name and type. The type of a host is its bit in sysFlag: if it is set, the address is an IPv6 one.
FIELDS: Final[tuple[tuple[str, str | int], ...]] = (
    ("size", "i"),  # of the whole record
    ("magic", "I"),  # MAGIC_V1 or MAGIC_V2
    ("body_crc", "I"),  # CRC-32 of the body & BODY_CRC_MASK
    ("queue_id", "i"),
    ("flag", "i"),  # set by the application
    ("queue_offset", "q"),
    ("physical_offset", "q"),  # of this record in the commit log
    ("sys_flag", "i"),  # see wire.records.sys_flag
    ("born_timestamp_ms", "q"),
    ("born_host", BORNHOST_V6),  # address bytes, port
    ("store_timestamp_ms", "q"),
    ("store_host", STOREHOSTADDRESS_V6),
    ("reconsume_times", "i"),
    ("prepared_transaction_offset", "q"),
    ("body_length", "i"),
)

TOPIC_LENGTH_V1: Final = Layout(("topic_length", "B")).struct
TOPIC_LENGTH_V2: Final = Layout(("topic_length", "H")).struct
_PROPERTIES: Final = Layout(("properties_length", "H"))
PROPERTIES_LENGTH: Final = _PROPERTIES.struct
PROPERTIES_LENGTH_TYPE: Final = _PROPERTIES.numpy_type("properties_length")
MAX_TOPIC_V1_BYTES: Final = 127  # the length is a signed byte in Java
MAX_TOPIC_V2_BYTES: Final = 32_767

BODY_CRC_MASK: Final = 0x7FFFFFFF
HOSTS_V6: Final = BORNHOST_V6 | STOREHOSTADDRESS_V6
V6_SHIFT: Final = 4  # LAYOUTS[(sys_flag & HOSTS_V6) >> V6_SHIFT]


def _layout(sys_flag: int) -> Layout:
    hosts = {0: f"{IPV4_BYTES}sI"}
    return Layout(
        *(
            (name, kind if isinstance(kind, str) else hosts.get(sys_flag & kind, f"{IPV6_BYTES}sI"))
            for name, kind in FIELDS
        )
    )


LAYOUTS: Final = tuple(_layout(bits << V6_SHIFT) for bits in range((HOSTS_V6 >> V6_SHIFT) + 1))
RECORD: Final = LAYOUTS[0]  # with both hosts IPv4, as nearly all records are
MIN_RECORD_BYTES: Final = RECORD.size + TOPIC_LENGTH_V1.size + PROPERTIES_LENGTH.size
SIZE_AND_MAGIC: Final = RECORD.subset("size", "magic")
BLANK_BYTES: Final = SIZE_AND_MAGIC.size


def layout_of(sys_flag: int) -> Layout:
    return LAYOUTS[(sys_flag & HOSTS_V6) >> V6_SHIFT]
