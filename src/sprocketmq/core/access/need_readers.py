"""Reading out of a request which topics and groups it touches: in a header field, in the body, or in a record that it names by its place.

Laws
1. A name is read as the handler reads it: the same header field, the body through the same decoder, the record at the same offset.
2. A name that must be there and is not, or that cannot be read, is a ProtocolError: who asks so is refused. Nothing is skipped.
3. A retry topic is its group. The topics in which the broker parks messages of all other topics are the cluster's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from sprocketmq.core.access.rights import (
    ADMIN,
    CHANGE_CLUSTER,
    CONSUME,
    LOOK_AT_CLUSTER,
    PUB,
    PUBLISH,
    REPLY,
    Need,
    Right,
)
from sprocketmq.core.resource_names import HALF_TOPIC, OP_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, UNDELIVERABLE_TOPIC
from sprocketmq.core.retry_schedule import RETRY_PREFIX, SCHEDULE_TOPIC
from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.errors import ProtocolError
from sprocketmq.wire.bodies import HeartbeatData
from sprocketmq.wire.command import Command

__all__ = [
    "PARKING_TOPICS",
    "Place",
    "Reader",
    "all_of",
    "any_account",
    "cluster",
    "group",
    "groups",
    "heartbeat",
    "in_body",
    "record",
    "reply",
    "topic",
    "topics",
]

# Here lie messages of every topic: delayed and timed ones, halves of transactions with their marks, halves that nobody answered for,
# and what could not be delivered.
PARKING_TOPICS: Final = frozenset(
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
    """Where a request is judged.

    Args:
        cluster_name: of the broker.
        topic_at: the topic that the message of the record at a commit log offset is for; None when no record begins there, empty when
            that is not certain.
    """

    cluster_name: str
    topic_at: Callable[[int], str | None]

    @property
    def reply_topic(self) -> str:
        """Where replies of request-reply are stored (Java: MixAll.getReplyTopic)."""
        return f"{self.cluster_name}_REPLY_TOPIC"


Reader = Callable[[Command, Place], Iterable[Need]]


def all_of(*readers: Reader) -> Reader:
    """What each of ``readers`` finds."""
    if len(readers) == 2:  # a pull, which is to be quick
        first, second = readers
        return lambda command, place: (*first(command, place), *second(command, place))
    return lambda command, place: [need for reader in readers for need in reader(command, place)]


def any_account(command: Command, place: Place) -> Iterable[Need]:
    """Nothing but an account: what the request touches is its sender's own, or nobody's."""
    return ()


def cluster(right: Right) -> Reader:
    return lambda command, place: (Need("Cluster", place.cluster_name, right),)


# -- header fields ---------------------------------------------------------------------------------------------------------------


def topic(field: str, right: Right, *, optional: bool = False) -> Reader:
    """The topic in a header field. ``optional``: the handler knows what to do without."""
    return _field(field, _topic, right, optional)


def group(field: str, right: Right, *, optional: bool = False) -> Reader:
    return _field(field, _group, right, optional)


def topics(field: str, separator: str, right: Right) -> Reader:
    """Any number of topics in one field."""
    return _list(field, separator, _topic, right)


def groups(field: str, separator: str, right: Right) -> Reader:
    return _list(field, separator, _group, right)


Make = Callable[[Command, Place, str, Right], Need]


def _field(field: str, make: Make, right: Right, optional: bool) -> Reader:
    def read(command: Command, place: Place) -> Iterable[Need]:
        name = command.ext_fields.get(field)
        return (make(command, place, name or "", right),) if name or not optional else ()

    return read


def _list(field: str, separator: str, make: Make, right: Right) -> Reader:
    def read(command: Command, place: Place) -> Iterable[Need]:
        for name in (command.ext_fields.get(field) or "").split(separator):
            if name:
                yield make(command, place, name, right)

    return read


def reply(topic_field: str) -> Reader:
    """A reply of request-reply. Replies have a topic of the broker's own, which whoever consumes may write to, as with Apache."""

    def read(command: Command, place: Place) -> Iterable[Need]:
        name = command.ext_fields.get(topic_field) or ""
        yield _topic(command, place, name, REPLY if name == place.reply_topic else PUBLISH)

    return read


# -- bodies ----------------------------------------------------------------------------------------------------------------------


def in_body(names: Callable[[bytes], Iterable[tuple[str, str | None]]], right: Right) -> Reader:
    """``names`` decodes a body as its handler does, and gives ``("topic", name)`` or ``("group", name)`` for each name in it."""

    def read(command: Command, place: Place) -> Iterable[Need]:
        found = list(names(bytes(command.body)))
        if not found:
            raise _unnamed(command, "topic or group")
        for kind, name in found:
            yield (_topic if kind == "topic" else _group)(command, place, name or "", right)

    return read


def heartbeat(right: Right) -> Reader:
    """Every consumer group with its subscriptions. Producer groups are nobody's: no generation knows a right on them."""

    def read(command: Command, place: Place) -> Iterable[Need]:
        for consumer in HeartbeatData.of_request(command.body).consumer_data_set:
            yield _group(command, place, consumer.group_name, right)
            for subscription in consumer.subscription_data_set:
                yield _topic(command, place, subscription.topic, right)

    return read


# -- records ---------------------------------------------------------------------------------------------------------------------


def record(offset: Callable[[Command], int], right: Right) -> Reader:
    """The topic of the message whose record begins at a commit log offset. Where none begins, the handler finds nothing to do either."""

    def read(command: Command, place: Place) -> Iterable[Need]:
        name = place.topic_at(offset(command))
        if name is not None:
            yield _topic(command, place, name, right)

    return read


# -- needs -----------------------------------------------------------------------------------------------------------------------


def _topic(command: Command, place: Place, name: str, right: Right) -> Need:
    if name[:1] == "%" and name.startswith(RETRY_PREFIX):
        # A consumer hands a message back by sending it to its group's retry topic, so that is consuming.
        return _group(command, place, name[len(RETRY_PREFIX) :], CONSUME if right.permission == PUB else right)
    if not name or name.isspace():
        raise _unnamed(command, "topic")
    if name in PARKING_TOPICS:
        of_cluster = CHANGE_CLUSTER if right.permission in (PUB, ADMIN) else LOOK_AT_CLUSTER
        return Need("Cluster", place.cluster_name, of_cluster)
    return Need("Topic", name, right)


def _group(command: Command, place: Place, name: str, right: Right) -> Need:
    if not name or name.isspace():
        raise _unnamed(command, "group")
    return Need("Group", name, right)


def _unnamed(command: Command, what: str) -> ProtocolError:
    return ProtocolError(f"request code {command.code} names no {what}")
