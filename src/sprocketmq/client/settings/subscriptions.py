# SPDX-License-Identifier: Apache-2.0
"""What a consumer hands to ``subscribe`` and ``assign``, as a subscription."""

from __future__ import annotations

import logging

from sprocketmq.core.group.subscription import FilterExpression, build_subscription, tags_like_sql
from sprocketmq.wire.bodies import SubscriptionData

log = logging.getLogger("sprocketmq.client")


def subscription_of(group: str, topic: str, expression: FilterExpression | str | None, now_ms: int) -> SubscriptionData:
    """Raises ConfigurationError. A text is tags; one that looks like a condition is said to be, because no message may ever match it."""
    subscription = build_subscription(topic, expression, now_ms)
    for tag in tags_like_sql(subscription):
        log.warning(
            "group %s: of topic %s it gets messages whose tag is the text %r; if it is a condition, subscribe with sql92(%r)",
            group, topic, tag, expression,
        )  # fmt: skip
    return subscription
