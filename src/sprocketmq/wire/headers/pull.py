# SPDX-License-Identifier: Apache-2.0
"""Headers of pulling: codes 11 and 361 (Java: PullMessageRequestHeader, PullMessageResponseHeader)."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64


class PullMessageRequestHeader(ExtHeader):
    """Header of PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361). ``sys_flag``: PULL_* bits of ``wire.records.sys_flag``;
    ``suspend_timeout_millis``: how long the broker may hold the pull."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None  # the protocol's spelling
    bname: str | None = None

    def to_ext(self) -> dict[str, str]:
        ext = {
            "consumerGroup": self.consumer_group,
            "topic": self.topic,
            "queueId": str(self.queue_id),
            "queueOffset": str(self.queue_offset),
            "maxMsgNums": str(self.max_msg_nums),
            "sysFlag": str(self.sys_flag),
            "commitOffset": str(self.commit_offset),
            "suspendTimeoutMillis": str(self.suspend_timeout_millis),
            "subVersion": str(self.sub_version),
        }
        if self.subscription is not None:
            ext["subscription"] = self.subscription
        if self.expression_type is not None:
            ext["expressionType"] = self.expression_type
        if self.max_msg_bytes is not None:
            ext["maxMsgBytes"] = str(self.max_msg_bytes)
        if self.request_source is not None:
            ext["requestSource"] = str(self.request_source)
        if self.proxy_froward_client_id is not None:
            ext["proxyFrowardClientId"] = self.proxy_froward_client_id
        if self.bname is not None:
            ext["bname"] = self.bname
        return ext


class PullMessageResponseHeader(ExtHeader):
    """Header of the answer to a pull, also without messages. ``suggest_which_broker_id``: where to pull next (0 is the master)."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None

    def to_ext(self) -> dict[str, str]:
        ext = {
            "suggestWhichBrokerId": str(self.suggest_which_broker_id),
            "nextBeginOffset": str(self.next_begin_offset),
            "minOffset": str(self.min_offset),
            "maxOffset": str(self.max_offset),
        }
        if self.offset_delta is not None:
            ext["offsetDelta"] = str(self.offset_delta)
        if self.topic_sys_flag is not None:
            ext["topicSysFlag"] = str(self.topic_sys_flag)
        if self.group_sys_flag is not None:
            ext["groupSysFlag"] = str(self.group_sys_flag)
        if self.forbidden_type is not None:
            ext["forbiddenType"] = str(self.forbidden_type)
        return ext
