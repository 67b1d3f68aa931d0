"""The gate in front of the handlers when access control is on: 4.9's accounts or 5.x's users (Java: RPCHook, RequestPipeline).

Handlers are wrapped once at the start, so that a broker without access control does not even ask whether it has any. A refused request is
answered with NO_PERMISSION 16 and the reason, as 5.x does; 4.9 answers the same refusals with code 1.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from sprocketmq.errors import ConfigurationError
from sprocketmq.net.calm_log import CalmLog
from sprocketmq.net.connection import Connection
from sprocketmq.wire.acl_signature import SIGNATURE, sign
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker
    from sprocketmq.broker.config import BrokerConfig
    from sprocketmq.broker.handlers import Handler

__all__ = ["Access", "acl_file", "guarded", "is_signed_with"]

log = logging.getLogger("sprocketmq.broker")

# A client may add this field after signing (Java: MixAll.UNIQUE_MSG_QUERY_FLAG).
_ADDED_AFTER_SIGNING: Final = "_UNIQUE_KEY_QUERY"


class Access(Protocol):
    """Who decides."""

    def refusal(self, connection: Connection, command: Command) -> str | None:
        """Why ``command`` may not be served to this peer, None when it may."""
        ...


def acl_file(config: BrokerConfig) -> Path:
    """Where 4.9's accounts are: ``aclFile``, else ``rocketmqHome/conf/plain_acl.yml``, else ``STORE/config/plain_acl.yml``.

    Raises:
        ConfigurationError: none of the three is set.
    """
    if config.acl_file:
        return Path(config.acl_file).expanduser().absolute()
    if config.rocketmq_home:
        return Path(config.rocketmq_home).expanduser().absolute() / "conf" / "plain_acl.yml"
    if config.store_path_root_dir:
        return Path(config.store_path_root_dir).expanduser().absolute() / "config" / "plain_acl.yml"
    raise ConfigurationError("aclEnable is true, but a broker in memory has no file of accounts; name one as aclFile")


def guarded(handlers: Mapping[int, Handler], access: Access) -> dict[int, Handler]:
    """The same handlers behind the gate."""
    refusals = CalmLog(log)

    def guard(handler: Handler) -> Callable[[Broker, Connection, Command, int], Command | None]:
        def handle(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
            reason = access.refusal(connection, command)
            if reason is None:
                return handler(broker, connection, command, now_ms)
            refusals.tell(now_ms / 1000, "a request from %s is refused: %s", connection.remote_address, reason)
            return response(command, ResponseCode.NO_PERMISSION, reason)

        return handle

    return {code: guard(handler) for code, handler in handlers.items()}


def is_signed_with(command: Command, secret_key: str) -> bool:
    """Whether the request carries the signature that this secret makes."""
    fields = command.ext_fields
    given = fields.get(SIGNATURE)
    if not given:
        return False
    if hmac.compare_digest(sign(fields, command.body, secret_key).encode(), given.encode()):
        return True
    if _ADDED_AFTER_SIGNING not in fields:
        return False
    signed = {name: value for name, value in fields.items() if name != _ADDED_AFTER_SIGNING}
    return hmac.compare_digest(sign(signed, command.body, secret_key).encode(), given.encode())
