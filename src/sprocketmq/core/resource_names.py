# SPDX-License-Identifier: Apache-2.0
"""Names of topics, groups, brokers and clusters: which ones may be given, and which ones are never used (Java: TopicValidator).

A name that is created must have Apache's characters and length. One that is only looked up, or that a broker made (``%RETRY%group+topic``
of POP), may have others, but never a path or a control character."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

# Topics of the broker's own (TopicValidator, TransactionalMessageUtil). UNDELIVERABLE is ours.
DEFAULT_TOPIC: Final = "TBW102"  # its route stands in for topics that do not exist yet (AUTO_CREATE_TOPIC_KEY_TOPIC)
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
UNDELIVERABLE_TOPIC: Final = "rmq_sys_UNDELIVERABLE"  # made with its first message
# TopicValidator: topics to which no client may send; system topics, and the beginning of the names of others.
NOT_ALLOWED_SEND_TOPICS: Final = frozenset(
    (SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT)
)
SYSTEM_TOPICS: Final = NOT_ALLOWED_SEND_TOPICS | {
    DEFAULT_TOPIC,
    "BenchmarkTest",
    TRACE_TOPIC,
    "CHECKPOINT_TOPIC",
}
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
REPLY_TOPIC_POSTFIX: Final = "_REPLY_TOPIC"
RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
# Topics of clients and of every broker that no table of a broker names: retries, dead letters, what 5.x keeps under this prefix.
_SYSTEM_TOPIC_PREFIXES: Final = (RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX, "RMQ_SYS_")

TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"  # its progress in the half topic is how far halves were checked
# MixAll: groups that exist on every broker, auto-creation or not. The ONS ones may broadcast as every group may by default.
PREDEFINED_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
# Java: MixAll.isSysConsumerGroupPullMessage.
_SYSTEM_GROUPS: Final = frozenset(("DEFAULT_CONSUMER", "SCHEDULE_CONSUMER", "__MONITOR_CONSUMER", *PREDEFINED_GROUPS))

MAX_QUEUES: Final = 65_536
"""The limit of queues of a topic on one broker."""
MAX_NAME_LENGTH: Final = 512
"""The limit of any name in a request. %RETRY%group+topic of 5.x, with a group of 255 and a topic of 127 characters, is shorter."""
MAX_TEXT_LENGTH: Final = 1_024
"""The limit of client ids, producer groups and addresses."""
MAX_TOPIC_LENGTH: Final = 127
MAX_RETRY_TOPIC_LENGTH: Final = 255  # %RETRY% and %DLQ%: RETRY_OR_DLQ_TOPIC_MAX_LENGTH
# 4.9 clients may use 255, 5.x's tools stop at 120; a longer one has no retry topic, since %RETRY% is in front of it.
MAX_GROUP_LENGTH: Final = MAX_RETRY_TOPIC_LENGTH - len(RETRY_PREFIX)
NAME_PATTERN: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_HARMFUL: Final = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]").search
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]").search


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """The topic in which each broker of ``cluster`` stores replies of request-reply (Java: MixAll.getReplyTopic)."""
    return cluster + REPLY_TOPIC_POSTFIX


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def group_of_retry_topic(topic: str) -> str:
    """The group of a ``%RETRY%`` or ``%DLQ%`` topic; other topics are a caller's bug (ValueError)."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    raise ValueError(f"{topic!r} is neither a retry nor a dead letter topic")


def topic_name_problem(topic: str) -> str | None:
    """One sentence, or None. Retry and dead letter topics may be 255 long."""
    limit = MAX_RETRY_TOPIC_LENGTH if topic.startswith("%") else MAX_TOPIC_LENGTH
    if not topic:
        return "the topic is blank, 1 to 127 characters of % | a-z A-Z 0-9 _ - are allowed"
    if len(topic) > limit:
        return f"the topic is {len(topic)} characters long, at most {limit} are allowed"
    if NAME_PATTERN.fullmatch(topic) is None:
        return f"the topic {topic!r} has a character that is not allowed, use % | a-z A-Z 0-9 _ -"
    return None


def group_name_problem(group: str) -> str | None:
    if not group:
        return "the consumer group is blank, 1 to 248 characters of % | a-z A-Z 0-9 _ - are allowed"
    if len(group) > MAX_GROUP_LENGTH:
        return f"the consumer group is {len(group)} characters long, at most {MAX_GROUP_LENGTH} are allowed"
    if NAME_PATTERN.fullmatch(group) is None:
        return f"the consumer group {group!r} has a character that is not allowed, use % | a-z A-Z 0-9 _ -"
    return None


def harmful_name_problem(what: str, name: str) -> str | None:
    """Why ``name``, the ``what`` of a request or file, is never used: as a folder it would lead elsewhere. Length: ``name_problem``."""
    if name in (".", "..") or _HARMFUL(name) is not None:
        return f"{what} is {name[:80]!r}, a name without / \\ . .. and control characters is allowed"
    return None


def control_character_problem(what: str, text: str) -> str | None:
    """Why ``text``, the ``what`` of a request, is not taken: it has a line break, or another control character. None when it has none."""
    if _CONTROL(text) is None:
        return None
    return f"{what} is {text[:80]!r}, a text without line breaks and other control characters is allowed"


def name_problem(what: str, name: str) -> str | None:
    """Why ``name``, the ``what`` of a request, is not taken: it is harmful, or so long that no table may keep it. None when it is taken."""
    return harmful_name_problem(what, name) or _length_problem(what, name, MAX_NAME_LENGTH)


def text_problem(what: str, text: str) -> str | None:
    """Why ``text``, the ``what`` of a request, is not kept: it has control characters, or too many of others. None when it is kept."""
    return control_character_problem(what, text) or _length_problem(what, text, MAX_TEXT_LENGTH)


def _length_problem(what: str, text: str, limit: int) -> str | None:
    return None if len(text) <= limit else f"{what} is {len(text)} characters long, at most {limit} are allowed"


def queue_number_problem(what: str, number: int) -> str | None:
    """Why a topic cannot have ``number`` queues, the ``what`` of a request. None when it can."""
    return None if 0 <= number <= MAX_QUEUES else f"{what} is {number}, 0 to {MAX_QUEUES} are allowed"


def is_system_group(group: str) -> bool:
    return group in _SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_system_topic(topic: str, known: Collection[str] = ()) -> bool:
    """Not an application's. ``known``: what brokers and name servers call their own, such as topics of the name of a broker."""
    return topic in known or topic in SYSTEM_TOPICS or topic.startswith(_SYSTEM_TOPIC_PREFIXES)
