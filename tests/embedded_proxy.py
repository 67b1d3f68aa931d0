# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of embedded brokers, with one address for all of them. It serves what Apache's serves in CLUSTER mode
(RemotingProtocolServer.registerRemotingServer), except the three requests of POP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sprocketmq.broker import Broker, BrokerConfig, NameServer
from sprocketmq.broker.ports import note_born_host
from sprocketmq.net.connection import Connection, RequestHandler
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.testing.faults import _Answering as Answering
from sprocketmq.wire.bodies import LockBatchRequestBody, TopicRouteData
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.sys_flag import PULL_SUBSCRIPTION

# Answered by the proxy itself; here by all brokers, so that each knows the members.
_OF_CLIENTS: Final = frozenset(
    {
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.SEND_MESSAGE,  # names no broker
    }
)
_PULLS: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
_WRITING_S: Final = 0.005
_LOCKS: Final = frozenset({RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ})
_FORWARDED: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.END_TRANSACTION,
        RequestCode.RECALL_MESSAGE,
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    }
)


@contextmanager
def second_broker_of(
    rocketmq: EmbeddedRocketMQ, config: BrokerConfig | None = None, *, name: str = "broker-b"
) -> Iterator[Broker]:
    """broker-b beside broker-a, on its loop."""
    broker = Broker(
        namesrv_addr=rocketmq.namesrv_addr,
        host="127.0.0.1",
        port=0,
        broker_name=name,
        clock=rocketmq.clock,
        engine=rocketmq._engine,
        config=config,
    )
    broker.intercept = rocketmq.faults.intercept
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@contextmanager
def embedded_proxy(
    rocketmq: EmbeddedRocketMQ, brokers: Sequence[Broker], dropped: list[bytes] | None = None
) -> Iterator[str]:
    """The address of a proxy in front of these brokers. With ``dropped`` it drops answers as Apache's does, and puts them there."""

    class Front(NameServer):
        def _connection_closed(self, connection: Connection) -> None:
            """A member that is gone is forgotten at once (ClientManagerActivity.onChannelClose)."""
            super()._connection_closed(connection)
            for broker in brokers:
                broker.connection_closed(connection)

    front = Front(host="127.0.0.1", port=0, clock=rocketmq.clock, engine=rocketmq._engine)
    by_name = {broker.config.broker_name: broker for broker in brokers}

    def route(connection: Connection, command: Command) -> Command | None:
        answer = rocketmq.namesrv.handle(connection, command)
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            found = TopicRouteData.decode(answer.body)
            for data in found.broker_datas:
                data.broker_addrs = {0: front.address}
            answer.body = found.encode()
        return answer

    def with_subscription(command: Command) -> Command | None:
        """A pull without a filter gets that of the newest heartbeat, whatever the version (PullMessageActivity.processRequest0)."""
        fields = command.ext_fields
        if int(fields["sysFlag"]) & PULL_SUBSCRIPTION:
            return None
        group = brokers[0].consumers.get(fields["consumerGroup"])
        if group is None:
            return response(command, ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        known = group.subscriptions.get(fields["topic"])
        if known is None:
            return response(command, ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        fields["sysFlag"] = str(int(fields["sysFlag"]) | PULL_SUBSCRIPTION)
        fields["subscription"], fields["expressionType"] = known.sub_string, known.expression_type
        return None

    def forward(connection: Any, command: Command) -> Command | None:
        if command.code in _LOCKS:
            name = LockBatchRequestBody.decode(command.body).mq_set[0].broker_name
        else:
            name = command.ext_fields.get("bname") or command.ext_fields.get("n") or ""
        if not name:  # AbstractRemotingActivity.request
            return response(command, ResponseCode.VERSION_NOT_SUPPORTED, "Request doesn't have field bname")
        if command.code in _PULLS and (refusal := with_subscription(command)) is not None:
            return refusal
        if name not in by_name:
            return response(command, ResponseCode.SYSTEM_ERROR, f"broker {name} has no address")
        return by_name[name].handle(connection, command)

    unwritten: set[Connection] = set()

    def write_messages(connection: Connection, frame: bytes) -> None:
        """A moment later; until then others for this connection are dropped (AbstractRemotingActivity.writeResponse)."""

        def write() -> None:
            unwritten.discard(connection)
            connection.send_raw([frame])

        if connection not in unwritten:
            unwritten.add(connection)
            asyncio.get_running_loop().call_later(_WRITING_S, write)
        else:
            assert dropped is not None
            dropped.append(frame)

    def serve(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
        note_born_host(connection)
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            answer = route(connection, command)
        elif command.code in _OF_CLIENTS:
            answers = [broker.handle(connection, command) for broker in brokers]
            answer = answers[0]
        elif command.code in _LOCKS | _FORWARDED:
            answer = forward(connection if dropped is None else Answering(connection, write_messages), command)
        else:
            answer = response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "request type not supported")
        if answer is not None:
            answer.ext_fields[props.MSG_REGION] = "DefaultRegion"  # AbstractRemotingActivity.writeResponse
        return answer

    front.intercept = serve
    front.start()
    try:
        yield front.address
    finally:
        front.stop()
