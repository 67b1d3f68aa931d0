"""5.x's users and policies of this broker, and the gate made of them (Java: AuthenticationPipeline, AuthorizationPipeline).

Apache keeps both in two RocksDB folders (config/users, config/acls); here they are one JSON file of our own, ``config/sprocketUsers.json``,
readable by its owner only, in the shapes that travel (UserInfo, AclInfo). It is written before a change is answered.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from sprocketmq.broker.access import is_signed_with
from sprocketmq.core.access.auth_needs import auth_needs
from sprocketmq.core.access.users import UserTable
from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.net.connection import Connection
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.wire.acl_signature import ACCESS_KEY, Credentials
from sprocketmq.wire.bodies import AclInfo, UserInfo
from sprocketmq.wire.command import Command

if TYPE_CHECKING:
    from sprocketmq.broker.config import BrokerConfig

__all__ = ["UserAccess", "inner_credentials"]

T = TypeVar("T")


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
    """What this broker signs its own requests with (``innerClientAuthenticationCredentials``), None without.

    Raises:
        ConfigurationError: the setting is no such JSON.
    """
    text = config.inner_client_authentication_credentials
    if not text.strip():
        return None
    given = _of_json(
        text, _InnerCredentials, "innerClientAuthenticationCredentials", '{"accessKey":"...","secretKey":"..."}'
    )
    return Credentials(given.access_key, given.secret_key, given.security_token)


class UserAccess:
    """Users, policies and decisions by them. ``root`` is the store's directory; None keeps users in memory."""

    def __init__(self, config: BrokerConfig, root: Path | None) -> None:
        self._config = config
        self._file = ConfigFile(None if root is None else root / "config" / "sprocketUsers.json", private=True)
        self.table = UserTable()
        self._not_authenticated = _codes(config.authentication_whitelist, "authenticationWhitelist")
        self._not_authorized = _codes(config.authorization_whitelist, "authorizationWhitelist")

    def load(self) -> None:
        """Read the file, then make the users that the settings name, unless they exist; they are Super.

        Raises:
            StoreCorrupt: the file and its spare copy are unreadable.
            ConfigurationError: a setting is not of its form.
        """
        saved = self._file.load(msgspec.json.Decoder(_Saved).decode)
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
        """Write the file. Raises StoreNotWritable."""
        saved = _Saved([user.info() for user in self.table.users()], self.table.acls())
        self._file.save(msgspec.json.format(msgspec.json.encode(saved)))

    def refusal(self, connection: Connection, command: Command) -> str | None:
        """See :class:`~sprocketmq.broker.access.Access`."""
        username = command.ext_fields.get(ACCESS_KEY)
        if command.code not in self._not_authenticated:
            reason = self.table.not_authentic(username, lambda password: is_signed_with(command, password))
            if reason is not None:
                return reason
        if not self._config.authorization_enabled or command.code in self._not_authorized:
            return None
        try:
            needs = auth_needs(command, self._config.broker_cluster_name)
        except ProtocolError as error:
            return f"what the request touches cannot be told: {error}"
        return self.table.not_authorized(username or "", connection.peer[0], needs)

    def is_super(self, command: Command) -> bool:
        """Whether a request may touch Super users: it comes from one, or names nobody (authentication is off)."""
        username = command.ext_fields.get(ACCESS_KEY)
        if not username:
            return True
        user = self.table.user(username)
        return user is not None and user.is_super


def _codes(text: str, key: str) -> frozenset[int]:
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not all(item.isdigit() for item in items):
        raise ConfigurationError(f"{key} is {text!r}, request codes joined by commas are allowed")
    return frozenset(int(item) for item in items)


def _of_json(text: str, kind: type[T], key: str, form: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:  # without the text: it holds a secret
        raise ConfigurationError(f"{key} cannot be read, {form} is allowed") from None
