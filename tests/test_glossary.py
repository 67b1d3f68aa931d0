# SPDX-License-Identifier: Apache-2.0
"""docs/glossary.md: each module that it names is there, and so is each Java class; each term has one line."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/glossary.md"
ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \| ([^|]*?) ?\| ([^|]+?) \|$", re.MULTILINE)
# Looked up once in Apache RocketMQ's sources (its development branch after 5.3.3): top-level classes outside of its tests.
JAVA_CLASSES = frozenset(
    (
        "AclClientRPCHook", "AllocateMessageQueueStrategy", "ClientConfig", "CommitLog", "ConsumeMessageConcurrentlyService",
        "ConsumeMessageOrderlyService", "ConsumeQueue", "ConsumerManager", "ConsumerOffsetManager", "ConsumerRunningInfo",
        "DataVersion", "DefaultLitePullConsumer", "DefaultMQProducer", "DefaultMQPushConsumer", "DefaultMQPushConsumerImpl",
        "DefaultMessageStore", "FlushDiskType", "GroupRetryPolicy", "GroupTransferService", "HeartbeatData", "IndexFile",
        "MQClientInstance", "MQFaultStrategy", "Message", "MessageBatch", "MessageClientIDSetter", "MessageConst",
        "MessageDecoder", "MessageExt", "MessageQueue", "MessageSysFlag", "MixAll", "NamespaceUtil", "NamesrvController",
        "NettyDecoder", "OffsetStore", "PlainPermissionManager", "PolicyEntry", "ProcessQueue", "ProduceAccumulator",
        "PullRequest", "PullRequestHoldService", "RebalanceImpl", "RebalanceLockManager", "RecallMessageHandle",
        "RemotingCommand", "RemotingSerializable", "RequestCode", "ResponseCode", "RouteInfoManager", "ScheduleMessageService",
        "SelectorParser", "SendMessageHook", "SendMessageProcessor", "SendStatus", "StoreCheckpoint", "SubscriptionData",
        "TimerLog", "TimerMessageStore", "TimerWheel", "TopicConfigManager", "TopicRouteData", "TraceContext",
        "TransactionalMessageServiceImpl",
    )
)  # fmt: skip


def rows() -> list[tuple[str, str, str, str]]:
    return [row for row in ROW.findall(PAGE.read_text("utf-8")) if row[0] not in ("term", "---")]


def test_each_term_has_one_line() -> None:
    terms = Counter(term for term, *_ in rows())
    assert len(terms) > 60
    assert [term for term, count in terms.items() if count > 1] == []


def test_each_line_says_what_the_term_is() -> None:
    assert [term for term, text, _, _ in rows() if not text.endswith(".") and "architecture.md" not in text] == []


def test_each_module_is_there() -> None:
    for term, _, _, module in rows():
        name = re.fullmatch(r"`([a-z_0-9.]+)`", module)
        assert name is not None, term
        importlib.import_module(f"sprocketmq.{name[1]}")


def test_each_java_name_is_a_class_of_apache() -> None:
    named = {name for _, _, java, _ in rows() for name in re.findall(r"`(\w+)`", java)}
    assert sorted(named - JAVA_CLASSES) == []
    assert sorted(JAVA_CLASSES - named) == [], "no line has these any more"


def test_the_index_leads_to_the_page() -> None:
    assert re.search(r"^glossary$", (PAGE.parent / "index.md").read_text("utf-8"), re.MULTILINE)
