"""HEART_BEAT and CHECK_CLIENT_CONFIG: who a client is and what it subscribes to (Java: HeartbeatData, ConsumerData, SubscriptionData)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body, NamedEnum

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


class CheckClientConfigRequestBody(Body):
    """Code 46: may this client subscribe so? Asked for expressions other than tags."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None
