"""The fixed fields in front of a message record's body, by the families of its two hosts (layout: ``wire.record``)."""

from __future__ import annotations

import struct
from typing import Any, Final

from sprocketmq.wire.sys_flag import BORNHOST_V6, STOREHOSTADDRESS_V6

__all__ = ["HEADS", "HOSTS_V6", "LateField", "LateHost"]

HOSTS_V6: Final = BORNHOST_V6 | STOREHOSTADDRESS_V6


def _head(born_bytes: int, store_bytes: int) -> struct.Struct:
    return struct.Struct(f">iIIiiqqiq{born_bytes}sIq{store_bytes}sIiqi")


# By the two v6 bits of sysFlag, shifted down: 0 none, 1 born, 2 store, 3 both.
HEADS: Final = (_head(4, 4), _head(16, 4), _head(4, 16), _head(16, 16))
_SYS_FLAG: Final = struct.Struct(">36xi")


def _unpacked(head: bytes) -> tuple[Any, ...]:
    return HEADS[(_SYS_FLAG.unpack_from(head)[0] & HOSTS_V6) >> 4].unpack(head)


class LateField:
    """A slot that gets its value from the head of the record, kept in ``_head``, only when somebody looks.

    Most listeners look at body, keys and tags alone, so what all the other fields cost is saved. A value that was set counts.

    Args:
        slot: the slot's own descriptor.
        index: which field of the head.
    """

    __slots__ = ("index", "slot")

    def __init__(self, slot: Any, index: int) -> None:
        self.slot, self.index = slot, index

    def __get__(self, message: Any, owner: type[Any]) -> Any:
        if message is None:
            return self
        try:
            return self.slot.__get__(message, owner)
        except AttributeError:
            value = self._value(_unpacked(message._head))
            self.slot.__set__(message, value)
            return value

    def __set__(self, message: Any, value: Any) -> None:
        self.slot.__set__(message, value)

    def _value(self, fields: tuple[Any, ...]) -> Any:
        return fields[self.index]


class LateHost(LateField):
    """A host: address bytes and port."""

    __slots__ = ()

    def _value(self, fields: tuple[Any, ...]) -> Any:
        return fields[self.index : self.index + 2]
