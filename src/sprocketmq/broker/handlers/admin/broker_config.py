# SPDX-License-Identifier: Apache-2.0
"""Reading and changing settings while running (Java: AdminBrokerProcessor, Configuration). Lines are applied all or not at all; 16 for a
key on the black list, 29 for one that is unknown or cannot change now (Apache answers success and does nothing, or something later)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.broker.handlers.table import serves
from sprocketmq.errors import ConfigurationError, NoPermission
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import GetBrokerConfigResponseHeader

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker


@serves(requests.brokers.UPDATE_BROKER_CONFIG)
def update_broker_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    if not command.body:
        return response(command)
    try:
        broker.live_config.update(bytes(command.body).decode(), now_ms)
    except UnicodeDecodeError as error:
        remark = f"the settings are not text in UTF-8 (byte {error.start})"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    except NoPermission as error:
        return response(command, ResponseCode.NO_PERMISSION, error.remark)
    except ConfigurationError as error:
        return response(command, ResponseCode.INVALID_PARAMETER, str(error))
    return response(command)


@serves(requests.brokers.GET_BROKER_CONFIG)
def get_broker_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    live = broker.live_config
    header = GetBrokerConfigResponseHeader(version=live.data_version.encode().decode())
    return response(command, header=header, body=live.text().encode())
