# SPDX-License-Identifier: Apache-2.0
"""Slaves and handover (Java: AdminBrokerProcessor). A slave copies other data than the log with requests 21, 43, 45 and 201."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.table import serves
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import ExchangeHAInfoHeader, HandoverRequestHeader

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_MAX_TIMEOUT_MS: Final = 3_600_000


@serves(requests.brokers.EXCHANGE_BROKER_HA_INFO)
def exchange_ha_info(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(ExchangeHAInfoHeader)
    if header.master_ha_address is not None:  # meant for slaves: a master ignores it, as Apache's does
        return response(command)
    return response(
        command,
        header=ExchangeHAInfoHeader(
            master_ha_address=broker.ha_address,
            master_flush_offset=broker.initial_max_offset,
            master_address=broker.address,
        ),
    )


@serves(requests.brokers.GET_BROKER_HA_STATUS)
def ha_status(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    return response(command, body=broker.replication.runtime_info().encode())


@serves(requests.brokers.HANDOVER)
def handover(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(HandoverRequestHeader)
    timeout_ms = 0 if header.timeout_ms is None else header.timeout_ms
    if not broker.replication.port:
        remark = (
            "this broker has no replication port, so it has no slave; set haListenPort, or give it a store directory"
        )
        return response(command, ResponseCode.ILLEGAL_OPERATION, remark)
    if header.step == "start":
        if not 0 < timeout_ms <= _MAX_TIMEOUT_MS:
            remark = f"timeoutMs is {header.timeout_ms}, 1 to {_MAX_TIMEOUT_MS} is allowed"
            return response(command, ResponseCode.INVALID_PARAMETER, remark)
        broker.handover.begin(timeout_ms)
    elif header.step == "cancel":
        broker.handover.cancel()
    elif header.step == "finish":
        broker.handover.finish(now_ms)
    elif header.step != "status":
        remark = f"step is {header.step!r}, start, status, finish or cancel is allowed"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    return response(command, body=broker.handover.status().encode())
