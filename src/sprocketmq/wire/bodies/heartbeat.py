"""HEART_BEAT and CHECK_CLIENT_CONFIG: who a client is and what it subscribes to (Java: HeartbeatData, ConsumerData, SubscriptionData)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire import fastjson
from sprocketmq.wire.bodies.body import Body, NamedEnum

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "CheckClientConfigRequestBody",
    "ConsumeFromWhere",
    "ConsumeType",
    "ConsumerData",
    "ExpressionType",
    "HeartbeatData",
    "MessageModel",
    "ProducerData",
    "SubscriptionData",
]


class ConsumeType(NamedEnum):
    """How a group gets its messages: a pull consumer's, a push consumer's, a POP consumer's way."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(NamedEnum):
    """CLUSTERING: each message goes to one member of the group. BROADCASTING: each member gets all messages."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(NamedEnum):
    """Where a group starts in a queue for which no progress is stored. The three deprecated names mean CONSUME_FROM_LAST_OFFSET."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"


class ExpressionType(NamedEnum):
    """The language of a subscription's expression."""

    TAG = "TAG"
    SQL92 = "SQL92"


class ProducerData(Body):
    """One producer group of a client."""

    group_name: str


class SubscriptionData(Body):
    """One topic of a group. ``code_set`` holds the tag hash codes of ``tags_set``; ``sub_version``: when it was made, in ms; newer wins."""

    topic: str = ""
    sub_string: str = ""
    tags_set: set[str] = msgspec.field(default_factory=set)
    code_set: set[int] = msgspec.field(default_factory=set)
    sub_version: int = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False


class ConsumerData(Body):
    """One consumer group of a client."""

    group_name: str
    consume_type: str = ConsumeType.CONSUME_PASSIVELY.value
    message_model: str = MessageModel.CLUSTERING.value
    consume_from_where: str = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class HeartbeatData(Body):
    """Code 34. A 5.x client may leave out subscriptions it announced before: ``without_sub`` with their ``heartbeat_fingerprint``."""

    client_id: str = msgspec.field(name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = False

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """As any body; enums may also be the numbers that Apache's C++ client writes (Java: the enum's ordinal, which fastjson takes)."""
        try:
            return super().decode(data)
        except ProtocolError:
            if b'"$ref"' in bytes(data):  # that client writes none, and they can describe a circle
                raise
            plain = fastjson.loads(data)
            if not _numbers_named(plain):
                raise
            return fastjson.decode(fastjson.dumps(plain), cls)


class CheckClientConfigRequestBody(Body):
    """Code 46: may this client subscribe so? Asked for expressions other than tags."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


# In the order of Java's enums; that of ConsumeFromWhere is not the order above.
_ORDINALS: Final = {
    "consumeType": [kind.value for kind in ConsumeType],
    "messageModel": [model.value for model in MessageModel],
    "consumeFromWhere": [
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value,
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST.value,
        ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET.value,
        ConsumeFromWhere.CONSUME_FROM_MAX_OFFSET.value,
        ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET.value,
        ConsumeFromWhere.CONSUME_FROM_TIMESTAMP.value,
    ],
}


def _numbers_named(heartbeat: Any) -> bool:
    """Put names where a heartbeat's consumers have numbers; whether there were any."""
    consumers = heartbeat.get("consumerDataSet") if isinstance(heartbeat, dict) else None
    found = False
    for consumer in consumers if isinstance(consumers, list) else ():
        for field, names in _ORDINALS.items():
            number = consumer.get(field) if isinstance(consumer, dict) else None
            if type(number) is int and 0 <= number < len(names):
                consumer[field] = names[number]
                found = True
    return found
