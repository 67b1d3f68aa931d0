# SPDX-License-Identifier: Apache-2.0
"""Names of topics, groups, brokers and clusters in a request are checked before its handler (Java: TopicValidator): no name may lead
through the file system, no text have a line break. Handlers check names in bodies. A function ``..._problem`` returns the reason, or
None."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from typing import Final, TypeVar

from sprocketmq.core.resource_names import (
    MAX_RETRY_TOPIC_LENGTH,
    control_character_problem,
    harmful_name_problem,
    name_problem,
    queue_number_problem,
    text_problem,
)
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import (
    HeartbeatData,
    LockBatchRequestBody,
    QueryAssignmentRequestBody,
    QueueData,
    TopicConfig,
)
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import ExtHeader

T = TypeVar("T")
log = logging.getLogger("sprocketmq.broker")

NAMES: Final = frozenset(
    (
        "brokerName", "bname", "cluster", "clusterName", "compareGroup", "consumerGroup", "defaultTopic", "destGroup", "group",
        "groupName", "namespace", "originTopic", "srcGroup", "topic",
    )
)  # fmt: skip
"""Header fields with names that may become a folder, a file or a key of a table on the disk."""

TEXTS: Final = frozenset(
    ("clientID", "clientId", "key", "lastKey", "producerGroup", "statsKey", "statsName", "username")
)
"""Header fields with names that are only compared and reported: Apache accepts any text."""

_MOST_SETTINGS_BYTES: Final = 64 * 1024
_NOT_READ: Final = frozenset(("bname",))  # no handler reads it

_MOST_ACCEPTED: Final = 4_096
ACCEPTED_NAMES: Final[set[str | None]] = set()
"""Cache of accepted names: most requests have one of a few."""


def _by_other_names() -> dict[int, tuple[tuple[str, str, bool], ...]]:
    """Headers that use other names for such fields: name on the wire, usual name, whether it is one of NAMES (V2: letters)."""
    found = {}
    for one in requests.declared():
        if one.header is None:
            continue
        fields = zip(one.header.__struct_encode_fields__, map(_usual, one.header.__struct_fields__), strict=True)
        renamed = tuple(
            (wire, usual, usual in NAMES) for wire, usual in fields if wire not in _CHECKED and usual in _CHECKED
        )
        if renamed:
            found[int(one.code)] = renamed
    return found


def _usual(field: str) -> str:
    """The usual name of a header field on the wire, in camel case."""
    first, *others = field.split("_")
    return first + "".join(map(str.title, others))


_CHECKED: Final = (NAMES | TEXTS) - _NOT_READ
_OTHERWISE_CALLED: Final = _by_other_names()


def refusal_of_names(command: Command) -> Command | None:
    """The refusal of a request whose header has a harmful name; None if it is accepted."""
    header: ExtHeader | None = command.typed_header
    if header is not None:
        problem = _problem_of_typed(header)
        return None if problem is None else response(command, ResponseCode.INVALID_PARAMETER, problem)
    fields = command.ext_fields
    problem = None
    for field in NAMES.intersection(fields):
        problem = problem or _problem_of_name(field, fields[field])
    for field in TEXTS.intersection(fields):
        problem = problem or control_character_problem(field, fields[field])
    for field, usual, is_name in _OTHERWISE_CALLED.get(command.code, ()):
        check = _problem_of_name if is_name else control_character_problem
        problem = problem or check(usual, fields.get(field, ""))
    return None if problem is None else response(command, ResponseCode.INVALID_PARAMETER, problem)


def _problem_of_typed(header: ExtHeader) -> str | None:
    problem = None
    for attribute, usual in _declared_names(type(header)):
        check = _problem_of_name if usual in NAMES else _problem_of_text
        problem = problem or check(usual, getattr(header, attribute) or "")
    return problem


class _NamesIn(dict[type[ExtHeader], Callable[[ExtHeader], tuple[str | None, ...]]]):
    """By the type of a header with several names: a function that returns them. A dict, because each request looks here."""

    def __missing__(self, header_type: type[ExtHeader]) -> Callable[[ExtHeader], tuple[str | None, ...]]:
        found = self[header_type] = attrgetter(*(attribute for attribute, _ in _declared_names(header_type)))
        return found


NAMES_IN: Final = _NamesIn()


@cache
def _declared_names(header_type: type[ExtHeader]) -> tuple[tuple[str, str], ...]:
    """The checked fields of a header type: attribute, usual name on the wire."""
    fields = ((attribute, _usual(attribute)) for attribute in header_type.__struct_fields__)
    return tuple((attribute, usual) for attribute, usual in fields if usual in _CHECKED)


def _problem_of_text(field: str, text: str) -> str | None:
    """Check the text as a name first, because names are cached: an accepted name has no control characters."""
    return None if _problem_of_name(field, text) is None else control_character_problem(field, text)


def _problem_of_name(field: str, name: str) -> str | None:
    if name in ACCEPTED_NAMES:
        return None
    problem = name_problem(field, name)
    if problem is None:
        if len(ACCEPTED_NAMES) >= _MOST_ACCEPTED:  # names come from the network, so the cache is limited
            ACCEPTED_NAMES.clear()
        ACCEPTED_NAMES.add(name)
    return problem


def usable(file: str, table: Mapping[str, T]) -> dict[str, T]:
    """The entries of one of the broker's files by name, without names that requests may not use."""
    kept = {}
    for name, value in table.items():
        problem = harmful_name_problem("a name", name)
        if problem is None and len(name.encode()) > MAX_RETRY_TOPIC_LENGTH:
            problem = f"a name has {len(name.encode())} bytes, at most {MAX_RETRY_TOPIC_LENGTH} are allowed"
        if problem is None:
            kept[name] = value
        else:
            log.error("%s is left out of %s: %s", repr(name), file, problem)
    return kept


def settings_length_problem(size: int) -> str | None:
    """Settings are parsed in one step."""
    if size <= _MOST_SETTINGS_BYTES:
        return None
    return f"the settings have {size} bytes, {_MOST_SETTINGS_BYTES} are allowed; change fewer at once"


def settings_problem(changes: Mapping[str, str]) -> str | None:
    """A line break in a value would make two lines in the file."""
    for key, value in changes.items():
        problem = control_character_problem("a key", key) or control_character_problem(key, value)
        if problem is not None:
            return problem
    return None


def names_problem(what: str, names: Iterable[str]) -> str | None:
    for name in names:
        problem = name_problem(what, name)
        if problem is not None:
            return problem
    return None


def queues_problem(topics: Mapping[str, TopicConfig] | Mapping[str, QueueData]) -> str | None:
    """Clients make a list of a topic's queues for each route."""
    for topic, data in topics.items():
        problem = (
            queue_number_problem(f"readQueueNums of topic {topic[:100]}", data.read_queue_nums)
            or queue_number_problem(f"writeQueueNums of topic {topic[:100]}", data.write_queue_nums)
        )  # fmt: skip
        if problem is not None:
            return problem
    return None


def heartbeat_problem(data: HeartbeatData) -> str | None:
    problem = text_problem("clientID", data.client_id)
    for producer in data.producer_data_set:
        problem = problem or text_problem("the producer group", producer.group_name)
    for consumer in data.consumer_data_set:
        topics = [subscription.topic for subscription in consumer.subscription_data_set]
        problem = problem or name_problem("the consumer group", consumer.group_name)
        problem = problem or names_problem("the topic of a subscription", topics)
    return problem


def assignment_problem(body: QueryAssignmentRequestBody) -> str | None:
    return (
        text_problem("clientId", body.client_id)
        or name_problem("the consumer group", body.consumer_group)
        or name_problem("the topic", body.topic)
    )


def broker_problem(**texts: str) -> str | None:
    return next(filter(None, (text_problem(what, text) for what, text in texts.items())), None)


def lock_problem(body: LockBatchRequestBody) -> str | None:
    return (
        text_problem("clientId", body.client_id)
        or name_problem("the consumer group", body.consumer_group)
        or names_problem("the topic of a queue", {queue.topic for queue in body.mq_set})
        or names_problem("the broker of a queue", {queue.broker_name for queue in body.mq_set})
    )
