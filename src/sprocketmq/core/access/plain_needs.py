"""What a request touches under 4.9's access control (Java: PlainAccessValidator.parse).

A code that is not in the table touches nothing: any account may use it. Beyond Apache's table are batches (320) and 5.x's lite pull (361),
which are sends and pulls like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sprocketmq.core.access.plain_acl import PUB, RETRY_PREFIX, SUB, Needs
from sprocketmq.wire.bodies import HeartbeatData
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.command import Command

__all__ = ["plain_needs"]


def plain_needs(command: Command) -> Needs:
    """Topics and groups of ``command`` with what it does to them.

    Raises:
        ProtocolError: a heartbeat's body cannot be read.
    """
    reader = _READERS.get(command.code)
    return () if reader is None else reader(command)


def _send(topic_field: str, group_field: str) -> Callable[[Command], Needs]:
    def needs(command: Command) -> Needs:
        topic = command.ext_fields.get(topic_field)
        if topic is None:
            return ()
        if topic.startswith(RETRY_PREFIX):  # a consumer hands a message back by sending it to its own retry topic
            group = command.ext_fields.get(group_field)
            return () if group is None else ((RETRY_PREFIX + group, SUB),)
        return ((topic, PUB),)

    return needs


def _subscribe(topic_field: str | None, group_field: str | None) -> Callable[[Command], Needs]:
    def needs(command: Command) -> Needs:
        topic = command.ext_fields.get(topic_field) if topic_field else None
        group = command.ext_fields.get(group_field) if group_field else None
        return (*(((topic, SUB),) if topic else ()), *(((RETRY_PREFIX + group, SUB),) if group else ()))

    return needs


def _heartbeat(command: Command) -> Needs:
    def all_needs() -> Iterator[tuple[str, int]]:
        for consumer in HeartbeatData.decode(command.body).consumer_data_set:
            yield RETRY_PREFIX + consumer.group_name, SUB
            for subscription in consumer.subscription_data_set:
                yield subscription.topic, SUB

    return tuple(all_needs())


_READERS: Final[dict[int, Callable[[Command], Needs]]] = {
    RequestCode.SEND_MESSAGE: _send("topic", "group"),
    RequestCode.SEND_MESSAGE_V2: _send("b", "a"),
    RequestCode.SEND_BATCH_MESSAGE: _send("b", "a"),
    RequestCode.CONSUMER_SEND_MSG_BACK: _subscribe(None, "group"),
    RequestCode.PULL_MESSAGE: _subscribe("topic", "consumerGroup"),
    RequestCode.LITE_PULL_MESSAGE: _subscribe("topic", "consumerGroup"),
    RequestCode.QUERY_MESSAGE: _subscribe("topic", None),
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _subscribe(None, "consumerGroup"),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _subscribe(None, "consumerGroup"),
    RequestCode.UPDATE_CONSUMER_OFFSET: _subscribe("topic", "consumerGroup"),
}
