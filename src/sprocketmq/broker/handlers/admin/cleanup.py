# SPDX-License-Identifier: Apache-2.0
"""Cleaning on request (Java: AdminBrokerProcessor): a round of the store's retention at any hour, and topics that have queues and no
configuration any more. Apache's 306 starts an expired queue at 0 again; here it keeps its offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.broker.handlers.admin.topics import forget_topic
from sprocketmq.broker.handlers.table import serves
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker


@serves(requests.brokers.CLEAN_EXPIRED_CONSUMEQUEUE)
def clean_expired_consume_queue(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    broker.store.clean(now_ms)
    return response(command)


@serves(requests.brokers.DELETE_EXPIRED_COMMITLOG)
def delete_expired_commit_log(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    broker.store.clean(now_ms, any_hour=True)
    return response(command)


@serves(requests.brokers.CLEAN_UNUSED_TOPIC)
def clean_unused_topic(broker: Broker, connection: Connection, command: Command, now_ms: int) -> None:
    for topic in {topic for topic, _ in broker.store.queues()}:
        if broker.topics.get(topic) is None and not broker.topics.is_system(topic):
            forget_topic(broker, topic, now_ms)
    broker.answer_when_saved(connection, command, response(command), offsets=True)
