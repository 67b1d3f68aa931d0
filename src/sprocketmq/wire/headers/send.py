# SPDX-License-Identifier: Apache-2.0
"""Headers of sending: codes 10, 310, 320, 324, 325, 326 and 36 (Java: SendMessageRequestHeader and related classes). Codes 10 and 324
have form V1, with the field names; 310, 320 and 325 V2, the default of every client, with one letter for each field.
:class:`SendMessageRequestHeaderV2` is a SendMessageRequestHeader, so readers of a header need to know only one class."""

from __future__ import annotations

from typing import Final

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64


class SendMessageRequestHeader(ExtHeader):
    """Form V1. ``properties``: as in ``wire.records.properties``; ``bname``: the broker of the queue."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    bname: str | None = None


_V2_NAMES: Final = dict(zip(SendMessageRequestHeader.__struct_fields__, "abcdefghijklmn", strict=True))


class SendMessageRequestHeaderV2(SendMessageRequestHeader, rename=_V2_NAMES):
    """Header of SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320) and SEND_REPLY_MESSAGE_V2 (325): the fields of V1, named a to n."""

    # The fields are declared again because msgspec gives inherited fields the wire names of the class that declared them.
    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    bname: str | None = None

    def to_ext(self) -> dict[str, str]:
        ext = {
            "a": self.producer_group,
            "b": self.topic,
            "c": self.default_topic,
            "d": str(self.default_topic_queue_nums),
            "e": str(self.queue_id),
            "f": str(self.sys_flag),
            "g": str(self.born_timestamp),
            "h": str(self.flag),
        }
        if self.properties is not None:
            ext["i"] = self.properties
        if self.reconsume_times is not None:
            ext["j"] = str(self.reconsume_times)
        if self.unit_mode is not None:
            ext["k"] = "true" if self.unit_mode else "false"
        if self.max_reconsume_times is not None:
            ext["l"] = str(self.max_reconsume_times)
        if self.batch is not None:
            ext["m"] = "true" if self.batch else "false"
        if self.bname is not None:
            ext["n"] = self.bname
        return ext


class SendMessageResponseHeader(ExtHeader):
    """``msg_id`` is the offset message id (ids of a batch are joined by ``,``). MSG_REGION and TRACE_ON are plain ext fields."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None

    def to_ext(self) -> dict[str, str]:
        ext = {"msgId": self.msg_id, "queueId": str(self.queue_id), "queueOffset": str(self.queue_offset)}
        if self.transaction_id is not None:
            ext["transactionId"] = self.transaction_id
        if self.batch_uniq_id is not None:
            ext["batchUniqId"] = self.batch_uniq_id
        if self.recall_handle is not None:
            ext["recallHandle"] = self.recall_handle
        return ext


class ReplyMessageRequestHeader(ExtHeader):
    """Header of PUSH_REPLY_MESSAGE_TO_CLIENT (326), broker to producer: the reply to a request of this producer. Body: the reply's body."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    born_host: str
    store_host: str
    store_timestamp: Int64
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False


class ConsumerSendMsgBackRequestHeader(ExtHeader):
    """Header of CONSUMER_SEND_MSG_BACK (36): deliver the message at commit log ``offset`` to ``group`` again. With ``delay_level`` 0 the
    broker chooses the level (3 + reconsume times); a negative one means the dead-letter topic."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    bname: str | None = None

    def to_ext(self) -> dict[str, str]:
        ext = {"offset": str(self.offset), "group": self.group, "delayLevel": str(self.delay_level)}
        if self.origin_msg_id is not None:
            ext["originMsgId"] = self.origin_msg_id
        if self.origin_topic is not None:
            ext["originTopic"] = self.origin_topic
        ext["unitMode"] = "true" if self.unit_mode else "false"
        if self.max_reconsume_times is not None:
            ext["maxReconsumeTimes"] = str(self.max_reconsume_times)
        if self.bname is not None:
            ext["bname"] = self.bname
        return ext
