# SPDX-License-Identifier: Apache-2.0
"""Namespaces: several tenants in one cluster whose topics and groups may have the same names (Java: NamespaceUtil, ClientConfig.namespace).

Version 1 is a prefix that the client adds to names; for the brokers these are ordinary names ::

    flights           <-->  ns%flights
    %RETRY%delays     <-->  %RETRY%ns%delays         the prefix stays first, because brokers look at it
    %DLQ%delays       <-->  %DLQ%ns%delays
    TBW102, RMQ_SYS_TRACE_TOPIC, rmq_sys_..., CID_RMQ_SYS_...       system names have no prefix

Version 2 (5.x) does not change names: each request has ``ns`` and ``nsd=true`` beside its fields, see ``net.pool``.

Rules
1. ``unwrap(ns, wrap(ns, name)) == name`` for every name a user may choose that does not itself begin with ``ns%``.
2. ``wrap`` twice is ``wrap`` once; a name of another namespace is not unwrapped.
"""

from __future__ import annotations

import re
from typing import Final

from sprocketmq.core.resource_names import (
    DLQ_PREFIX,
    REPLY_TOPIC_POSTFIX,
    RETRY_PREFIX,
    SYSTEM_GROUP_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
)
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records.message import MessageQueue

_SEPARATOR: Final = "%"
_PREFIXES: Final = (RETRY_PREFIX, DLQ_PREFIX)
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
# NameServerAddressUtils.INST_ENDPOINT_PATTERN
_ENDPOINT: Final = re.compile(r"(?:\w+://)?(MQ_INST_\w+_\w+)\..*")


def check_namespace(name: str, namespace: str) -> str:
    """The namespace. Raises ConfigurationError (empty, or with other characters than letters, digits, ``_`` and ``-``)."""
    if not isinstance(namespace, str) or not _NAME.fullmatch(namespace):
        raise ConfigurationError(
            f"{name} is {namespace!r}, a name of letters, digits, '_' and '-' is allowed; leave it out for none"
        )
    return namespace


def namespace_of_endpoint(namesrv_addr: str) -> str | None:
    """The namespace that an instance's own endpoint names, as in ``MQ_INST_123_abc.example.com:80``; else None."""
    found = _ENDPOINT.fullmatch(namesrv_addr)
    return found[1] if found else None


def wrap(namespace: str | None, name: str) -> str:
    """The name as brokers know it."""
    if not namespace or not name or _is_system(name):
        return name
    prefix, own = _split(name)
    if own.startswith(namespace + _SEPARATOR):
        return name
    return f"{prefix}{namespace}{_SEPARATOR}{own}"


def unwrap(namespace: str | None, name: str) -> str:
    """The name as the user knows it."""
    if not namespace:
        return name
    prefix, own = _split(name)
    return prefix + own.removeprefix(namespace + _SEPARATOR)


def wrap_queue(namespace: str | None, queue: MessageQueue) -> MessageQueue:
    return MessageQueue(wrap(namespace, queue.topic), queue.broker_name, queue.queue_id) if namespace else queue


def unwrap_queue(namespace: str | None, queue: MessageQueue) -> MessageQueue:
    return MessageQueue(unwrap(namespace, queue.topic), queue.broker_name, queue.queue_id) if namespace else queue


def _is_system(name: str) -> bool:
    """Whether all clients know a topic or group by this name. Java wraps the topic of replies and so never finds it; requests within a
    namespace get no reply there."""
    is_topic = name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX) or name.endswith(REPLY_TOPIC_POSTFIX)
    return is_topic or name.startswith(SYSTEM_GROUP_PREFIX)


def _split(name: str) -> tuple[str, str]:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
