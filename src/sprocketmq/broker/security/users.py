# SPDX-License-Identifier: Apache-2.0
"""Users and policies of 5.x, and decisions by them (Java: AuthenticationPipeline, AuthorizationPipeline). Apache keeps them in RocksDB;
here they are in ``config/sprocketUsers.json``, which only its owner can read, in the form of the requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from sprocketmq.broker.security.access import ACCOUNT, codes_in
from sprocketmq.core.access.need_readers import Place
from sprocketmq.core.access.request_needs import needs_key, needs_of
from sprocketmq.core.access.rights import Needs
from sprocketmq.core.access.users import UserTable
from sprocketmq.errors import ConfigurationError, ProtocolError, StoreError
from sprocketmq.net.connection import Connection
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.wire.bodies import AclInfo, UserInfo
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.acl_signature import Credentials
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.frames.signed_request import signed_request

if TYPE_CHECKING:
    from sprocketmq.broker.settings.config import BrokerConfig

T = TypeVar("T")
_HEART_BEAT: Final = int(RequestCode.HEART_BEAT)


class _Saved(msgspec.Struct):
    users: list[UserInfo] = []
    acls: list[AclInfo] = []


class _InitialUser(msgspec.Struct):
    username: str
    password: str


class _InnerCredentials(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str
    security_token: str | None = None


def inner_credentials(config: BrokerConfig) -> Credentials | None:
    """With which this broker signs its own requests, or None. Raises ConfigurationError (the setting is no such JSON)."""
    text = config.inner_client_authentication_credentials
    if not text.strip():
        return None
    given = _of_json(
        text, _InnerCredentials, "innerClientAuthenticationCredentials", '{"accessKey":"...","secretKey":"..."}'
    )
    return Credentials(given.access_key, given.secret_key, given.security_token)


class UserAccessValidator:
    """Users, policies and decisions by them. ``root`` is the store's directory; with None users are in memory."""

    def __init__(self, config: BrokerConfig, root: Path | None, place: Place) -> None:
        self._config, self._place = config, place
        self._file = ConfigFile(None if root is None else root / "config" / "sprocketUsers.json", private=True)
        self.table = UserTable()
        self._not_authenticated = codes_in(config.authentication_whitelist, "authenticationWhitelist")
        self._not_authorized = codes_in(config.authorization_whitelist, "authorizationWhitelist")

    def load(self) -> None:
        """Read the file, then create the users in the settings that do not exist, as Super. Raises StoreCorrupt, ConfigurationError."""
        saved = self._file.load(msgspec.json.Decoder(_Saved).decode, key='"users"')
        if saved is not None:
            self.table.load(saved.users, saved.acls)
        text = self._config.init_authentication_user
        if text.strip():
            first = _of_json(text, _InitialUser, "initAuthenticationUser", '{"username":"...","password":"..."}')
            self._make_super(first.username, first.password)
        inner = inner_credentials(self._config)
        if inner is not None:
            self._make_super(inner.access_key, inner.secret_key)
        if self.table.users():
            self.save()

    def _make_super(self, username: str, password: str) -> None:
        if self.table.user(username) is None:
            self.table.create_user(UserInfo(username, password, "Super"))

    def save(self) -> None:
        saved = _Saved([user.info() for user in self.table.users()], self.table.acls())
        self._file.save(msgspec.json.format(msgspec.json.encode(saved)))

    def change(self, change: Callable[[], None]) -> None:
        """Call ``change`` and write the file, or undo it. Raises ConfigurationError (not allowed), StoreNotWritable."""
        before = [user.info() for user in self.table.users()], self.table.acls()
        change()
        try:
            self.save()
        except StoreError:
            self.table.load(*before)
            raise

    def refusal(self, connection: Connection, command: Command) -> str | None:
        asked = signed_request(command)
        stranger = self.table.not_authentic(asked, command.body)
        if stranger is not None and command.code not in self._not_authenticated:
            return stranger
        if command.code == _HEART_BEAT:
            connection.state[ACCOUNT] = None if stranger else asked.access_key
        if not self._config.authorization_enabled or command.code in self._not_authorized:
            return None
        if stranger is not None:  # a name that is not authenticated has no rights
            return f"{stranger} (request code {command.code} is on authenticationWhitelist, and not on authorizationWhitelist)"
        try:
            return self.table.not_authorized(asked.access_key, connection.peer[0], command, self._needs, needs_key)
        except ProtocolError as error:
            return f"what the request touches cannot be told: {error}"

    def may_send(self, connection: Connection, topic: str) -> bool:
        if not self._config.authorization_enabled or RequestCode.SEND_MESSAGE in self._not_authorized:
            return True
        send = Command(RequestCode.SEND_MESSAGE, ext_fields={"topic": topic})
        account, host = connection.state.get(ACCOUNT), connection.peer[0]
        return self.table.not_authorized(account or "", host, send, self._needs) is None

    def _needs(self, command: Command) -> Needs:
        return needs_of(command, self._place)

    def is_super(self, command: Command) -> bool:
        """Whether a request may touch Super users and see passwords: a Super user signed it, or authentication is off."""
        if not self._config.authentication_enabled:
            return True
        asked = signed_request(command)
        user = self.table.user(asked.access_key)
        return user is not None and user.is_super and self.table.not_authentic(asked, command.body) is None


def _of_json(text: str, kind: type[T], key: str, form: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:  # without the text, which is a secret
        raise ConfigurationError(f"{key} cannot be read, {form} is allowed") from None
