# SPDX-License-Identifier: Apache-2.0
"""What a group wants out of a topic: tag expressions, and the carrier of SQL92 expressions. Java: FilterAPI, SubscriptionData.

The broker compares the tag's code (int32 Java hash) with code_set, so a stranger with the same hash may pass; the client compares the tag
itself with tags_set. Whatever ``matches_tags`` accepts, ``tags_code_matcher`` accepts. A null, empty or "*" expression matches everything;
a message without a tag has code 0 and matches nothing else.

``sub_version`` is the time. The broker goes by the newest subscription of any member, and refuses pulls that are newer than it (code 25).
So a member sends its subscription again, with a newer version, when another member may have sent a different one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct, structs

from sprocketmq.core.resource_names import control_character_problem
from sprocketmq.errors import ConfigurationError
from sprocketmq.plain_values import plain_text
from sprocketmq.wire.bodies import SubscriptionData
from sprocketmq.wire.hashing import tags_code

SUB_ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"


class FilterExpression(Struct, frozen=True):
    """A filter with its kind: ``type`` is ``TAG`` ("A || B", "*") or ``SQL92``. Java: MessageSelector."""

    expression: str = SUB_ALL
    type: str = TAG


def sql92(expression: str) -> FilterExpression:
    """A SQL92 filter over message properties, evaluated by the broker (which must have ``enablePropertyFilter=true``).

    ``expression``: for example ``"distance > 1000 AND carrier = 'UA'"``; the broker checks its grammar. Raises ConfigurationError (it is
    blank)."""
    if not isinstance(expression, str):
        raise ConfigurationError(f"expression is {expression!r}, text (str) is allowed")
    _check_readable(expression)
    if not expression.strip():
        raise ConfigurationError(
            "the SQL92 expression is blank; write a condition such as \"a > 5\", or subscribe with '*'"
        )
    return FilterExpression(plain_text(expression), SQL92)


_BLANKS: Final = "".join(map(chr, range(33)))  # Java: String.trim
_CONDITION: Final = re.compile(r"[<>=()']| (?:and|or|not|between|in|is) ", re.IGNORECASE)
_LINES: Final = {ord(one): None for one in "\t\r\n"}
TAG_TYPES: Final[frozenset[str | None]] = frozenset((None, "", TAG))
"""The types of a tag expression; old clients send none. Java: ExpressionType.isTagType."""


def is_tag_type(expression_type: str | None) -> bool:
    return expression_type in TAG_TYPES


def parse_tag_expression(topic: str, expression: str | None, now_ms: int) -> SubscriptionData:
    """The subscription for ``"TagA || TagB"``; None, "" and "*" mean all. ``now_ms``: becomes ``sub_version``. Raises ConfigurationError
    (the expression names no tag)."""
    if expression is None or expression == "" or expression == SUB_ALL:
        return SubscriptionData(topic=topic, sub_string=SUB_ALL, sub_version=now_ms, expression_type=TAG)
    tags = {tag for part in expression.split("||") if (tag := part.strip(_BLANKS))}
    if not tags:
        raise ConfigurationError(
            f"the tag expression {expression!r} names no tag; write tags as in 'TagA || TagB', or '*' for all"
        )
    return SubscriptionData(
        topic=topic,
        sub_string=expression,
        tags_set=tags,
        code_set={tags_code(tag) for tag in tags},
        sub_version=now_ms,
        expression_type=TAG,
    )


def build_subscription(topic: str, expression: FilterExpression | str | None, now_ms: int) -> SubscriptionData:
    """The subscription for whatever a user may hand to ``subscribe``. Raises ConfigurationError."""
    if isinstance(expression, str):
        expression = plain_text(expression)
        _check_readable(expression)
    if expression is None or isinstance(expression, str):
        return parse_tag_expression(topic, expression, now_ms)
    if not isinstance(expression, FilterExpression) or not isinstance(expression.expression, str):
        raise ConfigurationError(f"expression is {expression!r}, tags as in 'TagA || TagB', or sql92(...), are allowed")
    text = plain_text(expression.expression)
    _check_readable(text)
    if expression.type == TAG:
        return parse_tag_expression(topic, text, now_ms)
    if expression.type == SQL92:
        return SubscriptionData(topic=topic, sub_string=text, sub_version=now_ms, expression_type=SQL92)
    raise ConfigurationError(f"the expression type is {expression.type!r}, TAG and SQL92 are allowed; use sql92(...)")


def tags_like_sql(subscription: SubscriptionData) -> list[str]:
    """Tags that somebody may have meant as a condition, such as ``a > 5``."""
    return sorted(tag for tag in subscription.tags_set if _CONDITION.search(tag))


def renewed(subscription: SubscriptionData, now_ms: int) -> SubscriptionData:
    """The same with a newer version, whatever the clock says. Java: RebalancePushImpl.messageQueueChanged."""
    return structs.replace(subscription, sub_version=max(now_ms, subscription.sub_version + 1))


def _check_readable(expression: str) -> None:
    """Control characters and lone surrogates are a mistake, and the latter cannot be sent; an expression may have several lines."""
    if control_character_problem("expression", expression.translate(_LINES)) is not None:
        raise ConfigurationError(f"expression is {expression[:80]!r}, text without control characters is allowed")


def tags_code_matcher(subscription: SubscriptionData) -> Callable[[int], bool] | None:
    """The broker's test, on the low 32 bits of the consume queue's tagsCode; None means that everything matches. Not for SQL92."""
    if subscription.sub_string == SUB_ALL or subscription.class_filter_mode:
        return None
    if not is_tag_type(subscription.expression_type):
        return None
    codes = frozenset(subscription.code_set)
    return lambda code: (code if -0x80000000 <= code <= 0x7FFFFFFF else _int32(code)) in codes


def matches_tags(subscription: SubscriptionData, tags: str | None) -> bool:
    """The client's exact test on the TAGS property. Java: PullAPIWrapper re-checks only when the tag set is not empty."""
    if not subscription.tags_set:
        return True
    return tags is not None and tags in subscription.tags_set


def same_subscription(one: SubscriptionData, other: SubscriptionData) -> bool:
    """Equal apart from the version: what decides whether a heartbeat changed the group's subscription."""
    return (
        one.topic == other.topic
        and one.sub_string == other.sub_string
        and one.expression_type == other.expression_type
        and one.tags_set == other.tags_set
    )


def _int32(value: int) -> int:
    # The consume queue stores the hash sign-extended to 64 bits; Java casts back with (int).
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000
