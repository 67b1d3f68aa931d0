# SPDX-License-Identifier: Apache-2.0
"""Queues assigned by the broker, for clients with clientRebalance=false of 5.x (Java: QueryAssignmentProcessor). It runs the strategy that
the members would run. Unknown topic, group or strategy: no list, and the client keeps its queues. Gap: the mode POP is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.handlers.unknown_group import unknown_group
from sprocketmq.broker.security.name_checks import assignment_problem
from sprocketmq.broker.tables.table_file import answer_when_saved
from sprocketmq.core.group.allocation import STRATEGIES, allocate
from sprocketmq.core.resource_names import is_retry_topic
from sprocketmq.net.connection import Connection
from sprocketmq.wire import bodies, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_PULL: Final = "PULL"
_MOST_QUEUES: Final = 4_096  # of all brokers: an allocation takes some 5 us a queue, and cannot be done in steps


@serves(requests.consumers.QUERY_ASSIGNMENT)
def query_assignment(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    asked = bodies.QueryAssignmentRequestBody.of_request(command.body)
    problem = assignment_problem(asked)
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)
    models = [model.value for model in bodies.MessageModel]
    if asked.message_model not in models:
        remark = f"messageModel is {asked.message_model!r}, {' or '.join(models)} is allowed"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)

    async def answer() -> Command:
        queues = await broker.routes.queues(asked.topic)
        if queues is not None and len(queues) > _MOST_QUEUES:
            remark = (
                f"topic {asked.topic} has {len(queues)} queues, {_MOST_QUEUES} are allowed where the broker assigns them; "
                "let the clients do it"
            )
            return response(command, ResponseCode.SYSTEM_ERROR, remark)
        mine = None if queues is None else _share(broker, asked, queues)
        body = bodies.QueryAssignmentResponseBody(
            message_queue_assignments=None
            if mine is None
            else [bodies.MessageQueueAssignment(message_queue=queue, mode=_PULL) for queue in mine]
        )
        return response(command, body=body.encode())

    broker.answer_later(connection, command, answer())
    return None


def _share(
    broker: Broker, asked: bodies.QueryAssignmentRequestBody, queues: list[MessageQueue]
) -> list[MessageQueue] | None:
    if asked.message_model == bodies.MessageModel.BROADCASTING.value or not broker.config.server_load_balancer_enable:
        return queues
    group, strategy = broker.consumers.get(asked.consumer_group), STRATEGIES.get(asked.strategy_name or "")
    if group is None or strategy is None:
        return None
    return allocate(strategy, asked.consumer_group, asked.client_id, queues, group.client_ids)


@serves(requests.consumers.SET_MESSAGE_REQUEST_MODE)
def set_request_mode(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    mode = bodies.SetMessageRequestModeRequestBody.of_request(command.body)
    if is_retry_topic(mode.topic):
        return response(command, ResponseCode.NO_PERMISSION, f"{mode.topic} is a retry topic, which is always pulled")
    if broker.topics.get(mode.topic) is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {mode.topic} does not exist")
    if broker.groups.find(mode.consumer_group, now_ms) is None:
        return unknown_group(command, mode.consumer_group)
    if mode.mode != _PULL:
        remark = f"mode is {mode.mode!r}, {_PULL} is allowed: POP consumption is not served by this broker"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    broker.request_modes.set(mode)
    answer_when_saved(connection, command, response(command), broker.request_modes.file.when_saved)
    return None


@serves(requests.consumers.GET_ALL_MESSAGE_REQUEST_MODE)
def all_request_modes(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    return response(command, body=broker.request_modes.content().encode())
