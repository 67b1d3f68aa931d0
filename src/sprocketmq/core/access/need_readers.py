# SPDX-License-Identifier: Apache-2.0
"""Reads the topics and groups that a request concerns, as ``wire.requests.access`` declares it: from a header field, the body, or a record.

A name is read as the handler reads it. A required name that is missing or cannot be read is a ProtocolError; nothing is skipped. A retry
topic counts as its group, and topics in which the broker keeps waiting messages of all topics count as the cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from sprocketmq.core.access.rights import Need
from sprocketmq.core.resource_names import (
    HALF_TOPIC,
    OP_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    UNDELIVERABLE_TOPIC,
    reply_topic,
)
from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.errors import ProtocolError
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.frames.raw_command import RawCommand
from sprocketmq.wire.headers.ext_header import ExtHeader
from sprocketmq.wire.requests.access import (
    ADMIN,
    CHANGE_CLUSTER,
    CONSUME,
    LOOK_AT_CLUSTER,
    PUB,
    PUBLISH,
    REPLY,
    AccessNeeds,
    AddressNeed,
    BodyNeed,
    ClusterNeed,
    FieldNeed,
    RecordNeed,
    ReplyNeed,
    Right,
)

# Topics with messages of every topic, which REAL_TOPIC names: delayed and timed ones, half messages with their marks, half messages without
# an answer, and undeliverable messages.
REDIRECTED_TOPICS: Final = frozenset(
    (
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        UNDELIVERABLE_TOPIC,
    )
)


@dataclass(frozen=True)
class Place:
    """``topic_at``: the topic of the record at a commit log offset; None if none begins there, empty if that is not certain."""

    cluster_name: str
    topic_at: Callable[[int], str | None]


Reader = Callable[[Command, Place], Iterable[Need]]


def reader_of(stated: AccessNeeds, header_type: type[ExtHeader] | None) -> Reader:
    """A function that reads all ``stated`` needs, in that order, from requests with this header."""
    readers = [_reader(one, header_type) for one in stated]
    if not readers:
        return lambda command, place: ()
    if len(readers) == 1:
        return readers[0]
    if len(readers) == 2:  # a pull, which must be fast
        first, second = readers
        return lambda command, place: (*first(command, place), *second(command, place))
    return lambda command, place: [need for reader in readers for need in reader(command, place)]


def _reader(
    stated: FieldNeed | ReplyNeed | BodyNeed | RecordNeed | ClusterNeed | AddressNeed,
    header_type: type[ExtHeader] | None,
) -> Reader:
    if isinstance(stated, FieldNeed):
        return _list(stated) if stated.separator else _field(stated, header_type)
    if isinstance(stated, ReplyNeed):
        return _reply(stated)
    if isinstance(stated, BodyNeed):
        return _in_body(stated)
    if isinstance(stated, RecordNeed):
        return _record(stated)
    if isinstance(stated, ClusterNeed):
        right = stated.right
        return lambda command, place: (Need("Cluster", place.cluster_name, right),)
    raise TypeError("addresses are looked at by name servers, which have no accounts")


# -- header fields ---------------------------------------------------------------------------------------------------------------


def _field(stated: FieldNeed, header_type: type[ExtHeader] | None) -> Reader:
    field, right, optional = stated.field, stated.right, stated.optional
    make = _topic if stated.kind == "topic" else _group
    attribute = _attribute(header_type, field)

    def read(command: Command, place: Place) -> Iterable[Need]:
        typed = command.typed_header if attribute and type(command) is RawCommand else None
        name = command.fields.get(field) if typed is None else getattr(typed, attribute)
        return (make(command, place, name or "", right),) if name or not optional else ()

    return read


def _attribute(header_type: type[ExtHeader] | None, field: str) -> str:
    """The attribute of a typed header for the field ``field`` on the wire; empty if the header does not declare it."""
    if header_type is None:
        return ""
    fields = zip(header_type.__struct_encode_fields__, header_type.__struct_fields__, strict=True)
    return dict(fields).get(field, "")


def names_alone(stated: AccessNeeds, header_type: type[ExtHeader] | None) -> Callable[[ExtHeader], Hashable] | None:
    """A function that returns the names in a typed header, if all ``stated`` needs depend only on them; else None."""
    fields = [one for one in stated if isinstance(one, FieldNeed) and not one.separator]
    attributes = [_attribute(header_type, one.field) for one in fields]
    return attrgetter(*attributes) if attributes and all(attributes) and len(fields) == len(stated) else None


def _list(stated: FieldNeed) -> Reader:
    make = _topic if stated.kind == "topic" else _group

    def read(command: Command, place: Place) -> Iterable[Need]:
        for name in (command.fields.get(stated.field) or "").split(stated.separator):
            if name:
                yield make(command, place, name, stated.right)

    return read


def _reply(stated: ReplyNeed) -> Reader:
    def read(command: Command, place: Place) -> Iterable[Need]:
        name = command.fields.get(stated.field) or ""
        yield _topic(command, place, name, REPLY if name == reply_topic(place.cluster_name) else PUBLISH)

    return read


# -- bodies and records ------------------------------------------------------------------------------------------------------------


def _in_body(stated: BodyNeed) -> Reader:
    def read(command: Command, place: Place) -> Iterable[Need]:
        found = list(stated.names(bytes(command.body)))
        if not found and not stated.optional:
            raise _unnamed(command, "topic or group")
        for kind, name in found:
            yield (_topic if kind == "topic" else _group)(command, place, name or "", stated.right)

    return read


def _record(stated: RecordNeed) -> Reader:
    def read(command: Command, place: Place) -> Iterable[Need]:
        name = place.topic_at(stated.offset(command))
        if name is not None:
            yield _topic(command, place, name, stated.right)

    return read


# -- needs -----------------------------------------------------------------------------------------------------------------------


def _topic(command: Command, place: Place, name: str, right: Right) -> Need:
    if name[:1] == "%" and name.startswith(RETRY_PREFIX):
        # A consumer may send a message back by a send to its group's retry topic, so this counts as consuming.
        return _group(command, place, name[len(RETRY_PREFIX) :], CONSUME if right.permission == PUB else right)
    if not name or name.isspace():
        raise _unnamed(command, "topic")
    if name in REDIRECTED_TOPICS:
        of_cluster = CHANGE_CLUSTER if right.permission in (PUB, ADMIN) else LOOK_AT_CLUSTER
        return Need("Cluster", place.cluster_name, of_cluster)
    return Need("Topic", name, right)


def _group(command: Command, place: Place, name: str, right: Right) -> Need:
    if not name or name.isspace():
        raise _unnamed(command, "group")
    return Need("Group", name, right)


def _unnamed(command: Command, what: str) -> ProtocolError:
    return ProtocolError(f"request code {command.code} names no {what}")
