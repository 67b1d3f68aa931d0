# SPDX-License-Identifier: Apache-2.0
"""The format of a decision record: what went into a consumer's machines and what came out, one JSON object per line.

    {"record": 1, "run": ..., "part": 0, "group": ..., "settings": {...}}                    the header, first line of each part
    {"at": ms, "on": "flights/broker-a/0#1", "do": "take", "with": [32, ms], "gives": [...]}  a call of a machine: input and effects
    {"at": ms, "on": name, "new": "PullCursor", "with": [...], "named": {...}}                a machine was made
    {"at": ms, "on": name, "set": "limits", "to": {...}}                                      an input that is an attribute
    {"at": ms, "ask": "allocate", "with": [...], "gives": [...]}                              a pure decision
    {"at": ms, "note": "listener_began", ...}                                                 a fact from outside of the machines
    {"at": ms, "state": [[name, class, {...}], ...]}                                          all machines, where a later part begins

Values: what JSON has is itself; all else is an object with one key that says what it is, as in {"queue": "flights/broker-a/0"},
{"message": 17}, {"Drop": {...}}, {"DropReason": "REASSIGNED"}, {"machine": name}. A message is written in full where it is first
mentioned; after that only its number is written. In full it is: n, its number; UNIQ_KEY; queue offset; commit log offset; bytes of the
body; two times in ms; reconsume_times; its own topic; tags; keys.

Rules
1. What is written can be read back: ``encode(decode(encode(value))) == encode(value)`` for every value of a machine.
2. A record never contains a message's body or its user properties; it contains its size, id, keys, tags and offsets.
3. Every method of a machine that changes it is in :data:`MACHINES`, so no input can be missed.
4. A torn last line (the process died while writing) costs that line only; a broken line in the middle is an error that names it.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from sprocketmq.core.consume import consume_progress, consume_timeout, flow_control, orderly_turn, pull_cursor
from sprocketmq.core.consume.consume_progress import ConsumeProgress
from sprocketmq.core.consume.consume_timeout import ConsumeTimeout
from sprocketmq.core.consume.orderly_turn import OrderlyTurn
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import PullCursor
from sprocketmq.core.consume.queue_lock import LocalQueueLock
from sprocketmq.core.group import allocation, rebalance
from sprocketmq.core.group.rebalance import RebalanceTable
from sprocketmq.errors import ProtocolError
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageExt, MessageQueue

FORMAT: Final = 1

Line: TypeAlias = dict[str, Any]


class Recorded(NamedTuple):
    """What of a machine is recorded: ``calls`` change it, ``inputs`` are attributes that its driver sets."""

    machine: type[Any]
    calls: tuple[str, ...]
    inputs: tuple[str, ...] = ()


MACHINES: Final[Mapping[str, Recorded]] = {
    recorded.machine.__name__: recorded
    for recorded in (
        Recorded(ProcessQueue, ("put", "take", "done", "commit", "put_back", "rollback", "drop", "clear", "restart")),
        Recorded(LocalQueueLock, ("granted", "lost")),
        Recorded(PullCursor, ("handle",), ("limits", "next_offset")),
        Recorded(
            RebalanceTable,
            ("assigned", "subscribed", "added", "add_failed", "drop", "drop_all", "removed", "removal_refused"),
        ),
        Recorded(ConsumeProgress, ("update", "update_and_freeze", "remove", "load", "to_persist")),
        Recorded(
            ConsumeTimeout,
            ("started", "finished", "expired", "sent_back", "send_back_failed", "forget"),
            ("limit_ms",),
        ),
        Recorded(OrderlyTurn, ("next", "settle", "ended_before", "dead_lettered")),
    )
}

_PLAIN: Final = frozenset({type(None), bool, int, float, str})
# Made where a machine is used, so that a driver's own attributes do not become state.
_NOT_STATE: Final = frozenset({"__dict__", "__weakref__", "new_process_queue"})
_Place: TypeAlias = tuple[str, int, int]  # broker, commit log offset, queue offset
_NEVER: Final = (("", -1, -1), 0, -1)
_BODY: Final = memoryview(bytes(4 * 1024 * 1024))


def _kinds(*modules: ModuleType) -> dict[str, type[Any]]:
    found: dict[str, type[Any]] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Enum | msgspec.Struct):
                found[value.__name__] = value
    return found


# Every event, effect and setting of the machines' modules: one that is added there is known here.
_KINDS: Final = _kinds(
    allocation, consume_progress, consume_timeout, flow_control, orderly_turn, pull_cursor, rebalance
)


_FIELDS: Final[dict[type[Any], tuple[str, ...]]] = {
    kind: kind.__struct_fields__ for kind in _KINDS.values() if issubclass(kind, msgspec.Struct)
}


def queue_text(text: str) -> MessageQueue:
    """The queue of ``topic/broker/id``."""
    topic, _, rest = text.partition("/")
    broker_name, _, queue_id = rest.rpartition("/")
    return MessageQueue(topic, broker_name, int(queue_id))


def state_of(machine: object) -> dict[str, Any]:
    """All attributes of a machine, as they are."""
    names = [name for base in type(machine).__mro__ for name in getattr(base, "__slots__", ())] or list(vars(machine))
    return {name: getattr(machine, name) for name in names if name not in _NOT_STATE and hasattr(machine, name)}


class NumberedMessage(MessageExt[Any]):
    """A message of a record that is run again, with its number there."""

    __slots__ = ("number",)
    number: int


class Codec:
    """Values to JSON and back, for one record. ``name_of``: the name of a machine, None for what is none. ``machine_named``: the
    machine of a name."""

    def __init__(
        self, name_of: Callable[[object], str | None], machine_named: Callable[[str], object] | None = None
    ) -> None:
        self._name_of, self._machine_named = name_of, machine_named
        self._numbers, self._part = itertools.count(1), 0
        # By the id of the object: its place at the broker, its number, the last part with it in full. The object may be gone, and
        # another one have its id; that one has another place, or is new to the machines.
        self._mentions: dict[int, tuple[_Place, int, int]] = {}
        self._messages: dict[int, NumberedMessage] = {}

    def new_part(self) -> None:
        """Messages are written in full once more, because the earlier part may be deleted. ``state`` mentions all that the machines have;
        what the part that ends has not mentioned in full is gone."""
        self._mentions = {one: mention for one, mention in self._mentions.items() if mention[2] == self._part}
        self._part += 1

    def arrived(self, messages: Iterable[MessageExt]) -> None:
        """These were pulled just now, so they get new numbers."""
        for message in messages:
            self._mentions.pop(id(message), None)

    # -- to JSON ---------------------------------------------------------------------------------------------------------------

    def encode(self, value: object) -> Any:
        """JSON of any value. A value of an unknown class becomes the name of its class, so that recording never fails."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if isinstance(value, MessageExt):
            return {"message": self._message(value)}
        if isinstance(value, MessageQueue):
            return {"queue": str(value)}
        if isinstance(value, list | tuple):
            return [self.encode(item) for item in value]
        fields = _FIELDS.get(kind)
        if fields is not None:
            return {kind.__name__: {name: self.encode(getattr(value, name)) for name in fields}}
        return self._encode_rare(value)

    def _encode_rare(self, value: object) -> Any:
        if isinstance(value, Enum):
            return {type(value).__name__: value.name}
        if isinstance(value, set | frozenset):
            return {"set": sorted((self.encode(item) for item in value), key=repr)}
        if isinstance(value, Mapping):
            name = "ordered" if isinstance(value, OrderedDict) else "dict"
            return {name: [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, deque):
            return {"deque": [self.encode(item) for item in value]}
        name_of_machine = self._name_of(value)
        if name_of_machine is not None:
            return {"machine": name_of_machine}
        return {"unlike": type(value).__name__}

    def _message(self, message: MessageExt) -> int | dict[str, Any]:
        if isinstance(message, NumberedMessage):
            return message.number
        place = (message.broker_name, message.commit_log_offset, message.queue_offset)
        known, number, part = self._mentions.get(id(message), _NEVER)
        if known != place:
            number = next(self._numbers)
        elif part == self._part:
            return number
        self._mentions[id(message)] = (place, number, self._part)
        spelt = {
            "n": number,
            "id": message.message_id,
            "offset": message.queue_offset,
            "place": message.commit_log_offset,
            "size": len(message.body),
            "born": message.born_timestamp_ms,
            "stored": message.store_timestamp_ms,
            "tries": message.reconsume_times,
            "topic": message.topic,
        }
        if message.tags:
            spelt["tags"] = message.tags
        if message.keys:
            spelt["keys"] = message.keys
        return spelt

    # -- from JSON -------------------------------------------------------------------------------------------------------------

    def decode(self, value: Any) -> Any:
        """The value of some JSON. Raises ProtocolError (this version knows no such value)."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) != 1:
            raise ProtocolError(f"a value has the keys {sorted(value)}, one key is allowed")
        ((kind, content),) = value.items()
        if kind == "message":
            return self.message(content)
        if kind == "queue":
            return queue_text(content)
        if kind == "machine" and self._machine_named is not None:
            return self._machine_named(content)
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](self.decode(content))
        return self._decode_kind(kind, content)

    def _decode_kind(self, kind: str, content: Any) -> Any:
        known = _KINDS.get(kind)
        try:
            if known is None:
                raise KeyError(kind)
            if issubclass(known, Enum):
                return known[content]
            return known(**{name: self.decode(item) for name, item in content.items()})
        except (KeyError, TypeError, AttributeError) as error:
            raise ProtocolError(f"this version knows no {kind} of {content!r}") from error

    def message(self, content: int | dict[str, Any]) -> NumberedMessage:
        """The message of a number, or of its first mention; one that was never written in full has offset -1."""
        if isinstance(content, int):
            number, spelt = content, {}
        else:
            number, spelt = content["n"], content
        message = self._messages.get(number)
        if message is None:
            message = self._messages[number] = NumberedMessage("?", b"", queue_offset=-1)
            message.number = number
        if spelt and message.queue_offset == -1:
            message.topic, message.queue_offset, message.commit_log_offset = (
                spelt["topic"],
                spelt["offset"],
                spelt["place"],
            )
            message.born_timestamp_ms, message.store_timestamp_ms = spelt["born"], spelt["stored"]
            message.reconsume_times = spelt["tries"]
            message.properties.update(_spelt_properties(spelt))
            message.body = cast(bytes, _BODY[: spelt["size"]])  # only its length is used
        return message


def _spelt_properties(spelt: Mapping[str, Any]) -> dict[str, str]:
    properties = {props.UNIQ_KEY: spelt["id"]}
    if "tags" in spelt:
        properties[props.TAGS] = spelt["tags"]
    if "keys" in spelt:
        properties[props.KEYS] = " ".join(spelt["keys"])
    return properties


_CONTAINERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "set": set,
    "dict": dict,
    "ordered": OrderedDict,
    "deque": deque,
}


def read_lines(chunks: Iterable[bytes]) -> Iterator[Line]:
    """The lines of a record, as they come from a file opened for bytes. Raises ProtocolError: a line in the middle is no JSON
    object (rule 4)."""
    broken: int | None = None
    for number, chunk in enumerate(chunks, 1):
        if broken is not None:
            raise ProtocolError(f"line {broken} of the record cannot be read, and it is not the last one")
        if not chunk.strip():
            continue
        try:
            line = msgspec.json.decode(chunk)
        except (msgspec.DecodeError, UnicodeDecodeError):
            broken = number
            continue
        if not isinstance(line, dict):
            raise ProtocolError(f"line {number} of the record is not an object")
        yield line
