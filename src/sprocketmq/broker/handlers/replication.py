"""Replication: EXCHANGE_BROKER_HA_INFO 906, GET_BROKER_HA_STATUS 907 (both 5.x). Java: AdminBrokerProcessor.

What a slave copies besides the log, it asks for by the ordinary requests 21, 43, 45, 201.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.net.connection import Connection
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.headers import ExchangeHAInfoHeader

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["HANDLERS"]


def exchange_ha_info(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(ExchangeHAInfoHeader)
    if (
        header.master_ha_address is not None
    ):  # news of a master for its slave: a master takes none, and Apache's answers so too
        return response(command)
    return response(
        command,
        header=ExchangeHAInfoHeader(
            master_ha_address=broker.ha_address,
            master_flush_offset=broker.initial_max_offset,
            master_address=broker.address,
        ),
    )


def ha_status(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    return response(command, body=broker.replication.runtime_info().encode())


HANDLERS = {
    RequestCode.EXCHANGE_BROKER_HA_INFO: exchange_ha_info,
    RequestCode.GET_BROKER_HA_STATUS: ha_status,
}
