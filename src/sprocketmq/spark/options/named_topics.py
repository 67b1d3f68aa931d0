# SPDX-License-Identifier: Apache-2.0
"""The topics of a read or a write: from ``load(path)``, topic, topics, topicsPattern or deadLettersOf.

Spark puts the argument of ``load`` into ``path``. For a table of its catalog ``path`` is a folder of the warehouse and names no topic.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from sprocketmq.core.resource_names import NAME_PATTERN, dlq_topic, is_system_topic, retry_topic
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.given_options import GivenOptions

# With the producer group, the default of ``ledgerTopic``: the topic where a transactional write stores its decisions.
LEDGER_PREFIX: Final = "SPROCKETMQ_DECISIONS_"
_TOPIC_OPTIONS: Final = ("topic", "topics", "topicsPattern", "deadLettersOf")


def is_matched(pattern: str, topic: str) -> bool:
    """Whether ``topicsPattern`` reads a topic: its whole name matches, and it is neither one that brokers make (TopicConfigManager) nor a
    ledger of transactional writes."""
    return (
        re.fullmatch(pattern, topic) is not None and not is_system_topic(topic) and not topic.startswith(LEDGER_PREFIX)
    )


def topics_to_read(given: GivenOptions) -> tuple[tuple[str, ...], str | None]:
    """The named topics, or none and the value of ``topicsPattern``. Raises ConfigurationError (no topic is given, two options name
    topics, or a name is not a valid topic)."""
    named = [name for name in _TOPIC_OPTIONS if given.has(name)]
    if len(named) > 1:
        raise ConfigurationError(f"{' and '.join(named)} are both given; keep one of {', '.join(_TOPIC_OPTIONS)}")
    if given.has("deadLettersOf"):
        group = given.name("deadLettersOf", "")
        if not group:
            given.refuse("deadLettersOf")
        return (dlq_topic(group),), None
    if given.has("topicsPattern"):
        pattern = given.text("topicsPattern") or ""
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(
                f"topicsPattern is {pattern!r}, which is not a regular expression ({error}); correct it"
            ) from error
        return (), pattern
    _one_topic(given)
    text = given.text("topic") or given.text("topics") or _path_as_topic(given)
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise ConfigurationError(
            'no topic is given; add .option("topic", "...") or topics (comma separated) or topicsPattern'
        )
    for topic in topics:
        if not NAME_PATTERN.fullmatch(topic):
            given.refuse(named[0] if named else "path", "letters, digits and %|_- in a topic name")
    return topics, None


def topic_to_write(given: GivenOptions) -> str | None:
    _one_topic(given)
    return given.name("topic", "") or _path_as_topic(given) or None


def check_topics_are_read(given: GivenOptions, name: str, named: set[str]) -> None:
    topics, pattern = topics_to_read(given)
    retry = retry_topic(given.name("group", "")) if given.has("includeRetry") else ""
    strange = sorted(
        topic
        for topic in named - {retry}
        if topic not in topics and (pattern is None or not re.fullmatch(pattern, topic))
    )
    if strange:
        near = difflib.get_close_matches(strange[0], topics, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigurationError(
            f"{name} names topic {strange[0]!r}, which is not read; allowed is {', '.join(topics) or f'what matches {pattern!r}'}{hint}"
        )


def _one_topic(given: GivenOptions) -> None:
    """Refuse ``load("a").option("topic", "b")``."""
    path = _path_as_topic(given)
    named = next((name for name in _TOPIC_OPTIONS if given.has(name)), None)
    if path and named is not None and given.text(named) != path:
        raise ConfigurationError(f"the path is {path!r} and {named} is {given.text(named)!r}; keep one of them")


def _path_as_topic(given: GivenOptions) -> str:
    path = given.text("path") or ""
    return "" if "/" in path or ":" in path or "\\" in path else path
