# SPDX-License-Identifier: Apache-2.0
"""HEART_BEAT and CHECK_CLIENT_CONFIG: a client's groups and subscriptions (Java: HeartbeatData, ConsumerData, SubscriptionData)."""

from __future__ import annotations

from typing import Final, Self

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.bodies.body import Body, NamedEnum
from sprocketmq.wire.text import fastjson


class ConsumeType(NamedEnum):
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


class ProducerData(Body):
    group_name: str


class SubscriptionData(Body):
    """The subscription of a group to one topic. ``code_set`` holds the hash codes of ``tags_set``. ``sub_version`` is the time at which it
    was made, in ms; the newest counts."""

    topic: str = ""
    sub_string: str = ""
    tags_set: set[str] = msgspec.field(default_factory=set)
    code_set: set[int] = msgspec.field(default_factory=set)
    sub_version: int = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False


class ConsumerData(Body):
    group_name: str
    consume_type: str = ConsumeType.CONSUME_PASSIVELY.value
    message_model: str = MessageModel.CLUSTERING.value
    consume_from_where: str = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class HeartbeatData(Body):
    """A 5.x client may omit known subscriptions: then ``without_sub`` is set, with their ``heartbeat_fingerprint``."""

    client_id: str = msgspec.field(name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = False

    def encode(self) -> bytes:
        """As ``Body.encode``, fast: it names each topic of a client, and a client of many topics sends several when it starts."""
        return fastjson.dumps_sorted(self)

    @classmethod
    def of_request(cls, data: bytes | bytearray | memoryview) -> Self:
        """Decode like any body, but accept numbers for enums, which Apache's C++ client sends (Java: ordinals, which fastjson accepts)."""
        try:
            return super().of_request(data)
        except ProtocolError:
            if len(data) > fastjson.MAX_REQUEST_BYTES:
                raise
            try:
                numbered = fastjson.decode(data, _NumberedHeartbeat, fastjson.MAX_ODD_REQUEST_BYTES)
                consumers = [consumer.named() for consumer in numbered.consumer_data_set]
            except ProtocolError:
                numbered = None
            if numbered is None:  # the numbers are not the problem
                raise
        return cls(
            numbered.client_id,
            numbered.producer_data_set,
            consumers,
            numbered.heartbeat_fingerprint,
            numbered.without_sub,
        )


class CheckClientConfigRequestBody(Body):
    """Body of CHECK_CLIENT_CONFIG (46): ask whether this client may use its expression. Sent for expressions other than tags."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


# In the order of Java's enums; for ConsumeFromWhere that is not the order above.
_ORDINALS: Final = {
    "consume_type": [kind.value for kind in ConsumeType],
    "message_model": [model.value for model in MessageModel],
    "consume_from_where": [
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value,
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST.value,
        ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET.value,
        ConsumeFromWhere.CONSUME_FROM_MAX_OFFSET.value,
        ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET.value,
        ConsumeFromWhere.CONSUME_FROM_TIMESTAMP.value,
    ],
}


class _NumberedConsumer(Body):
    """A consumer whose enums are numbers or names. It is a type of its own, so that long heartbeats are read fast, too."""

    group_name: str
    consume_type: str | int = ConsumeType.CONSUME_PASSIVELY.value
    message_model: str | int = MessageModel.CLUSTERING.value
    consume_from_where: str | int = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False

    def named(self) -> ConsumerData:
        """The same with names instead of numbers. Raises ProtocolError (a number stands for nothing)."""
        fields = msgspec.structs.asdict(self)
        for field, names in _ORDINALS.items():
            number = fields[field]
            if isinstance(number, int):
                if not 0 <= number < len(names):
                    raise ProtocolError(f"{field} is {number}, 0 to {len(names) - 1} are allowed")
                fields[field] = names[number]
        return ConsumerData(**fields)


class _NumberedHeartbeat(Body):
    client_id: str = msgspec.field(name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[_NumberedConsumer] = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = False
