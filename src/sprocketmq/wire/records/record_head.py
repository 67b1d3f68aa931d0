# SPDX-License-Identifier: Apache-2.0
"""Fields of a received message that are read from the head of its record on first access (layout: ``wire.records.record_layout``)."""

from __future__ import annotations

from typing import Any, Final

from sprocketmq.wire.records.record_layout import RECORD, layout_of

_SYS_FLAG: Final = RECORD.subset("sys_flag")


def _unpacked(head: bytes) -> tuple[Any, ...]:
    return layout_of(_SYS_FLAG.unpack_from(head)[0]).struct.unpack(head)


class LazyField:
    """A slot whose value is read on first access from the head of the record, in ``_head``, unless it was set: most listeners only use
    body, keys and tags. ``slot``: the slot's own descriptor. ``field``: its name in the record's layout."""

    __slots__ = ("index", "slot")

    def __init__(self, slot: Any, field: str) -> None:
        self.slot, self.index = slot, RECORD.index[field]

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


class LazyHost(LazyField):
    """The same for a host: address bytes and port."""

    __slots__ = ()

    def _value(self, fields: tuple[Any, ...]) -> Any:
        return fields[self.index : self.index + 2]
