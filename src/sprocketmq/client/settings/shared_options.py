# SPDX-License-Identifier: Apache-2.0
"""Which options belong to a client instance; a client that differs in one of them is refused (Java's MQClientManager ignores the
difference).

Producers and consumers of one client id at one cluster are one instance: brokers know clients by this id, share queues out by it
and send replies to it, so a second instance with the id would read queues twice and lose replies. ``namesrv_addr``,
``instance_name``, ``client_ip`` and ``unit_name`` make the instance: another value is another one, or (name servers of the same
cluster) a refusal. It has each option of SHARED once; all others are each member's own.
"""

from __future__ import annotations

from typing import Any, Final

from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.errors import ConfigurationError

SHARED: Final = frozenset(
    {
        # Connections: TLS and the account.
        *("tls", "ssl_context", "access_key", "secret_key", "security_token", "secret_key_file"),
        "namespace_v2",
        # Periodic work, and the limit of the requests that are made for all members.
        *("poll_name_server_interval_ms", "heartbeat_broker_interval_ms", "persist_consumer_offset_interval_ms"),
        *("mq_client_api_timeout_ms", "clock"),
        # The inner producer sends it for all consumers.
        "unit_mode",
    }
)
SECRET_OPTIONS: Final = frozenset({"access_key", "secret_key", "security_token"})
# Objects: compared by identity, and their text is not shown in errors.
_OBJECTS: Final = frozenset({"ssl_context", "clock"})


def address_set(options: ClientOptions) -> frozenset[str]:
    return frozenset(parse_addresses(options.addresses))


def check_shared(client_id: str, has: ClientOptions, asked: ClientOptions) -> None:
    """Raise ConfigurationError if a client with the options ``asked`` may not be a member of the instance made with ``has``."""
    for name in ClientOptions.__struct_fields__:
        if name not in SHARED:
            continue
        one, other = _value(has, name), _value(asked, name)
        if one is other or (name not in _OBJECTS and one == other):
            continue
        raise ConfigurationError(
            f"{name} is {_shown(name, other)}, and the running client {client_id!r} has {_shown(name, one)}; clients of one instance_name "
            "share it: give both the same, or this one an instance_name of its own"
        )


def _value(options: ClientOptions, name: str) -> Any:
    if name == "tls":  # a context means TLS, too
        return options.tls or options.ssl_context is not None
    return getattr(options, name)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if name in SECRET_OPTIONS or name in _OBJECTS:
        return "another"
    return repr(value)
