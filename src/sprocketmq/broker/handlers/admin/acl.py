# SPDX-License-Identifier: Apache-2.0
"""Accounts of 4.9 (Java: AdminBrokerProcessor). 54 hides secrets, which Apache up to 4.9.7 shows to everybody. The failure codes 209 to 211
are those of 4.9; 5.x uses these numbers for other errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.broker.handlers.table import serves
from sprocketmq.core.access.plain_file import AccountChange
from sprocketmq.errors import ConfigurationError, StoreError
from sprocketmq.net.connection import Connection
from sprocketmq.wire import headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

UPDATE_AND_CREATE_ACL_CONFIG_FAILED: Final = 209
DELETE_ACL_CONFIG_FAILED: Final = 210
UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED: Final = 211

_OFF: Final = "this broker has no accounts because aclEnable is false; start it with aclEnable=true"


@serves(requests.accounts.UPDATE_AND_CREATE_ACL_CONFIG)
def change_account(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.CreateAccessConfigRequestHeader)
    if broker.plain_access is None:
        return response(command, UPDATE_AND_CREATE_ACL_CONFIG_FAILED, _OFF)
    change = AccountChange(
        header.access_key.strip(),
        header.secret_key,
        header.white_remote_address,
        header.admin,
        header.default_topic_perm,
        header.default_group_perm,
        _split(header.topic_perms),
        _split(header.group_perms),
    )
    try:
        broker.plain_access.change_account(change, now_ms)
    except (ConfigurationError, StoreError) as error:
        return response(command, UPDATE_AND_CREATE_ACL_CONFIG_FAILED, str(error))
    return response(command)


@serves(requests.accounts.DELETE_ACL_CONFIG)
def delete_account(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.DeleteAccessConfigRequestHeader)
    if broker.plain_access is None:
        return response(command, DELETE_ACL_CONFIG_FAILED, _OFF)
    try:
        found = broker.plain_access.delete_account(header.access_key, now_ms)
    except StoreError as error:
        return response(command, DELETE_ACL_CONFIG_FAILED, str(error))
    if not found:
        return response(command, DELETE_ACL_CONFIG_FAILED, f"no account has the access key {header.access_key}")
    return response(command)


@serves(requests.accounts.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG)
def change_white_addresses(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.UpdateGlobalWhiteAddrsConfigRequestHeader)
    if broker.plain_access is None:
        return response(command, UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, _OFF)
    try:
        broker.plain_access.change_white_addresses(
            _split(header.global_white_addrs) or [], header.acl_file_full_path, now_ms
        )
    except (ConfigurationError, StoreError) as error:
        return response(command, UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, str(error))
    return response(command)


@serves(requests.accounts.GET_BROKER_CLUSTER_ACL_INFO)
def acl_version(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    if broker.plain_access is None:
        return response(command, ResponseCode.SYSTEM_ERROR, _OFF)
    header = headers.GetBrokerAclConfigResponseHeader(
        version=msgspec.json.encode(broker.plain_access.version()).decode(),
        all_acl_file_version=msgspec.json.encode(broker.plain_access.versions()).decode(),
        broker_name=broker.config.broker_name,
        broker_addr=broker.address,
        cluster_name=broker.config.broker_cluster_name,
    )
    return response(command, header=header)


@serves(requests.accounts.GET_BROKER_CLUSTER_ACL_CONFIG)
def acl_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    if broker.plain_access is None:
        return response(command, ResponseCode.SYSTEM_ERROR, _OFF)
    body = {
        "globalWhiteAddrs": broker.plain_access.white_addresses(),
        "plainAccessConfigs": broker.plain_access.accounts(),
    }
    return response(command, body=msgspec.json.encode(body))


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [item.strip() for item in text.split(",") if item.strip()]
