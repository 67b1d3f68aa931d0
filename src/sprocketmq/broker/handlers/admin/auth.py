# SPDX-License-Identifier: Apache-2.0
"""Users and policies of 5.x (Java: AdminBrokerProcessor). As at Apache, what is not allowed is NO_PERMISSION 16 with a reason, a blank name
INVALID_PARAMETER 29, and the answer for an unknown user has no body."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from sprocketmq.broker.handlers.table import serves
from sprocketmq.core.access.users import User, subject_name
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.wire import headers, requests
from sprocketmq.wire.bodies import AclInfo, UserInfo
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker


@serves(requests.accounts.AUTH_CREATE_USER)
def create_user(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    return _with_user(broker, command, lambda info: broker.users.table.create_user(info))


@serves(requests.accounts.AUTH_UPDATE_USER)
def update_user(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    return _with_user(broker, command, lambda info: broker.users.table.update_user(info))


def _with_user(broker: Broker, command: Command, change: Callable[[UserInfo], None]) -> Command:
    name = command.header(headers.UserRequestHeader).username
    if not name or not name.strip():
        return _blank(command, "username")
    info = UserInfo.of_request(command.body or b"{}")
    info.username = name
    old = broker.users.table.user(name)
    touches_super = (info.user_type or "").lower() == "super" or (old is not None and old.is_super)
    if touches_super and not broker.users.is_super(command):
        return response(command, ResponseCode.SYSTEM_ERROR, "only a Super user may make or change a Super user")
    return _changed(broker, command, lambda: change(info))


@serves(requests.accounts.AUTH_DELETE_USER)
def delete_user(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    name = command.header(headers.UserRequestHeader).username
    if not name or not name.strip():
        return _blank(command, "username")
    old = broker.users.table.user(name)
    if old is not None and old.is_super and not broker.users.is_super(command):
        return response(command, ResponseCode.NO_PERMISSION, "only a Super user may delete a Super user")
    return _changed(broker, command, lambda: broker.users.table.delete_user(name))


@serves(requests.accounts.AUTH_GET_USER)
def get_user(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    name = command.header(headers.UserRequestHeader).username
    if not name or not name.strip():
        return _blank(command, "username")
    user = broker.users.table.user(name)
    return response(command, body=b"" if user is None else _shown(broker, command, user).encode())


@serves(requests.accounts.AUTH_LIST_USER)
def list_users(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    users = broker.users.table.users(command.header(headers.ListUsersRequestHeader).filter)
    return response(command, body=_json_list([_shown(broker, command, user) for user in users]))


def _shown(broker: Broker, command: Command, user: User) -> UserInfo:
    """A user as shown in an answer. Only Super users see passwords, which ``mqadmin copyUser`` needs; Apache shows them to everybody."""
    info = user.info()
    if not broker.users.is_super(command):
        info.password = None
    return info


@serves(requests.accounts.AUTH_CREATE_ACL, requests.accounts.AUTH_UPDATE_ACL)
def update_acl(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.AclSubjectRequestHeader)
    info = AclInfo.of_request(command.body or b"{}")
    return _changed(
        broker,
        command,
        lambda: broker.users.table.update_acl(subject_name(info.subject or header.subject), info.policies or []),
    )


@serves(requests.accounts.AUTH_DELETE_ACL)
def delete_acl(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.DeleteAclRequestHeader)
    return _changed(
        broker,
        command,
        lambda: broker.users.table.delete_acl(subject_name(header.subject), header.policy_type, header.resource),
    )


@serves(requests.accounts.AUTH_GET_ACL)
def get_acl(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    try:
        info = broker.users.table.acl(subject_name(command.header(headers.AclSubjectRequestHeader).subject))
    except ConfigurationError as error:
        return response(command, ResponseCode.NO_PERMISSION, str(error))
    return response(command, body=b"" if info is None else info.encode())


@serves(requests.accounts.AUTH_LIST_ACL)
def list_acls(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.ListAclsRequestHeader)
    return response(command, body=_json_list(broker.users.table.acls(header.subject_filter, header.resource_filter)))


def _changed(broker: Broker, command: Command, change: Callable[[], None]) -> Command:
    try:
        broker.users.change(change)
    except ConfigurationError as error:
        return response(command, ResponseCode.NO_PERMISSION, str(error))
    return response(command)


def _blank(command: Command, what: str) -> Command:
    return response(command, ResponseCode.INVALID_PARAMETER, f"the {what} is blank, name the user that is meant")


def _json_list(items: list[UserInfo] | list[AclInfo]) -> bytes:
    # An empty list is sent as no body, as in Apache; absent fields are left out.
    plain = [msgspec.json.decode(item.encode()) for item in items]
    return msgspec.json.encode(plain) if plain else b""
