# SPDX-License-Identifier: Apache-2.0
"""Access control: the check before each handler, by 4.9's accounts or 5.x's users (Java: RPCHook, RequestPipeline). Handlers are wrapped
once at the start, so a broker without it has no extra work. A refusal is NO_PERMISSION 16, as in 5.x (4.9: code 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from sprocketmq.core.access.need_readers import REDIRECTED_TOPICS
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.user_paths import user_path
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker
    from sprocketmq.broker.handlers.table import Handler
    from sprocketmq.broker.settings.config import BrokerConfig
    from sprocketmq.store import MessageStore

# In a connection's state: the access key of the last heartbeat, if it was right.
ACCOUNT: Final = "account"


class AccessValidator(Protocol):
    """Decides whether a request may be served. Java: AccessValidator."""

    def refusal(self, connection: Connection, command: Command) -> str | None:
        """Return why this peer may not send ``command``, or None if it may. Stores the sender of a heartbeat in the connection's state."""
        ...

    def may_send(self, connection: Connection, topic: str) -> bool:
        """Whether the sender of this connection's last heartbeat may send to a topic."""
        ...


def acl_file(config: BrokerConfig) -> Path:
    """``aclFile``, else ``plain_acl.yml`` in ``rocketmqHome/conf``, else in ``STORE/config``. Raises ConfigurationError (none is set)."""
    if config.acl_file:
        return user_path(config.acl_file).absolute()
    if config.rocketmq_home:
        return user_path(config.rocketmq_home).absolute() / "conf" / "plain_acl.yml"
    if config.store_path_root_dir:
        return user_path(config.store_path_root_dir).absolute() / "config" / "plain_acl.yml"
    raise ConfigurationError("aclEnable is true, but a broker in memory has no file of accounts; name one as aclFile")


def with_access_checks(behind: Mapping[int, Handler], access: AccessValidator) -> dict[int, Handler]:
    """The check for each request code of ``behind``, which is read when a request has passed (``before_request``)."""
    refusal = access.refusal

    def handle(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
        reason = refusal(connection, command)
        if reason is None:
            return behind[command.code](broker, connection, command, now_ms)
        sentence, host = "a request from %s is refused: %s", connection.peer[0]
        broker.troubles.failed("refusals", sentence, connection.remote_address, reason, of=host)
        return response(command, ResponseCode.NO_PERMISSION, reason)

    return dict.fromkeys(behind, handle)


def topic_at(store: MessageStore) -> Callable[[int], str | None]:
    """The topic of the record at a commit log offset, for ``Place.topic_at``. It counts only if an entry of its queue points to it: bytes
    inside a message may look like the head of a record that covers the messages behind it."""

    def topic_of(physical_offset: int) -> str | None:
        record = store.view_at(physical_offset)
        if record is None:
            return None
        units = store.units(record.topic, record.queue_id, record.queue_offset, 1)
        if not units or units[0].physical_offset != physical_offset:
            return ""
        if record.topic in REDIRECTED_TOPICS:
            return props.get_property(record.raw_properties, props.REAL_TOPIC) or record.topic
        return record.topic

    return topic_of


def codes_in(text: str, key: str) -> frozenset[int]:
    """The request codes in a setting. Raises ConfigurationError (the setting has another form)."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not all(item.isdigit() for item in items):
        raise ConfigurationError(f"{key} is {text!r}, request codes joined by commas are allowed")
    return frozenset(int(item) for item in items)
