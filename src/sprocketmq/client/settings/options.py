# SPDX-License-Identifier: Apache-2.0
"""Options that every client has (Java: ClientConfig), validated before anything is opened, and the client id made of them."""

from __future__ import annotations

import itertools
import os
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from msgspec.structs import force_setattr

from sprocketmq.client.results import ServerOutage
from sprocketmq.client.settings.namespace import check_namespace, namespace_of_endpoint
from sprocketmq.client.settings.namesrv_addr import resolve_namesrv_addr
from sprocketmq.client.settings.validators import DAY_MS, check_range, check_settings, check_topic
from sprocketmq.core.callbacks import check_callback
from sprocketmq.core.resource_names import control_character_problem
from sprocketmq.core.retry.retry_schedule import MOST_DELAY_LEVELS
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.address import local_ip
from sprocketmq.net.process.clock import Clock, SystemClock

if TYPE_CHECKING:
    from sprocketmq.client.settings.key_file import KeyFile
    from sprocketmq.wire.frames.acl_signature import Credentials

DEFAULT_INSTANCE_NAME: Final = "DEFAULT"
# One clock object for all clients that name none: the clock is part of what makes two clients share an instance.
SYSTEM_CLOCK: Final[Clock] = SystemClock()
_SECRET: Final = frozenset({"secret_key", "security_token"})
# Secrets are never shown, and names have their own checks.
_CHECKED_HERE: Final = _SECRET | {"namesrv_addr", "access_key", "namespace", "namespace_v2", "trace_topic"}
_serial = itertools.count()


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What all clients have in common.

    Args:
        namesrv_addr: ``host:9876``, several separated by ``;``; or the URL of a page that holds such a list, as in
            ``http://host:8080/rocketmq/nsaddr``; default the environment variable NAMESRV_ADDR. Page and variable are read again
            each 2 minutes.
        instance_name: clients of one instance name in one process share connections, heartbeat and client id, and must have equal
            options for these. "DEFAULT" makes a fresh name for each (``pid#nanoseconds``).
        client_ip: first part of the client id; default the address by which this machine reaches other networks.
        unit_name: last part of the client id; default none.
        unit_mode: mark each request as one of a unit, for deployments of several units (Java: unitMode).
        namespace: ``namespace%`` stands before all topics and groups at the brokers; default what ``MQ_INST_x_y.host:port`` names.
        namespace_v2: send this namespace in each request instead (5.x), with unchanged names; default none.
        vip_channel_enabled: send to the brokers' second port, two below the first.
        poll_name_server_interval_ms: how often routes are refreshed.
        heartbeat_broker_interval_ms: milliseconds between two heartbeats; brokers forget a client after 120 s.
        persist_consumer_offset_interval_ms: how often progress is written.
        mq_client_api_timeout_ms: limit of one administrative request.
        enable_trace: record what this client sends and consumes, for ``mqadmin queryMsgTraceById``.
        trace_topic: where ``enable_trace`` sends to; default RMQ_SYS_TRACE_TOPIC, or what the access channel names.
        trace_msg_batch_num: records that are sent together, 1 to 20; fewer leave after 5 s.
        max_delay_level: how many delay levels the brokers have (messageDelayLevel). Higher ones are refused; a broker would
            silently use its highest.
        access_channel: "LOCAL", or "CLOUD" for Alibaba Cloud's form of trace topics.
        access_key: sign each request as this account, for a cluster with access control; default requests are not signed.
        secret_key: what ``access_key`` signs with; both are given or none (the default).
        security_token: sent with the signature, for temporary keys; default none.
        secret_key_file: a file with the secret key, or lines ``accessKey:``, ``secretKey:`` (as Apache's conf/tools.yml), which may
            be renewed while the client runs; default none.
        tls: use TLS, and check the servers' certificates against the authorities this machine trusts.
        ssl_context: use TLS with this context (an ``ssl.SSLContext``); default as ``tls`` says.
        on_disconnected: a function of one ServerOutage, called when a server does not answer any more, in a thread, or on the
            client's loop if it is ``async def``; default none. Admin calls none.
        on_reconnected: the same, called with the first answer after that; default none.
        clock: the clock for periodic work and delays; tests pass a ManualClock.
    """

    namesrv_addr: str | None = None
    instance_name: str = DEFAULT_INSTANCE_NAME
    client_ip: str | None = None
    unit_name: str | None = None
    unit_mode: bool = False
    namespace: str | None = None
    namespace_v2: str | None = None
    vip_channel_enabled: bool = False
    poll_name_server_interval_ms: int = 30_000
    heartbeat_broker_interval_ms: int = 30_000
    persist_consumer_offset_interval_ms: int = 5_000
    mq_client_api_timeout_ms: int = 3_000
    enable_trace: bool = False
    trace_topic: str | None = None
    trace_msg_batch_num: int = 10
    max_delay_level: int = 18
    access_channel: str = "LOCAL"
    access_key: str | None = None
    secret_key: str | None = None
    security_token: str | None = None
    secret_key_file: str | None = None
    tls: bool = False
    ssl_context: ssl.SSLContext | None = None
    on_disconnected: Callable[[ServerOutage], object] | None = None
    on_reconnected: Callable[[ServerOutage], object] | None = None
    clock: Clock = SYSTEM_CLOCK

    from_environment: ClassVar[bool] = False
    """Not an option: whether the name servers came from NAMESRV_ADDR, which is looked at again each 2 minutes."""

    def __post_init__(self) -> None:
        force_setattr(self, "from_environment", self.namesrv_addr is None)
        force_setattr(self, "namesrv_addr", resolve_namesrv_addr(self.namesrv_addr))
        check_settings(self, _CHECKED_HERE)
        for name, value in (
            ("instance_name", self.instance_name),
            ("client_ip", self.client_ip),
            ("unit_name", self.unit_name),
        ):
            if value is not None and (not isinstance(value, str) or not value.strip() or "@" in value):
                raise ConfigurationError(
                    f"{name} is {value!r}, text without '@' is allowed: it becomes a part of the client id"
                )
        if self.ssl_context is not None and not isinstance(self.ssl_context, ssl.SSLContext):
            raise ConfigurationError(f"ssl_context is {self.ssl_context!r}, an ssl.SSLContext is allowed")
        if not callable(getattr(self.clock, "call_later", None)):
            raise ConfigurationError(f"clock is {self.clock!r}, a sprocketmq.net.process.clock.Clock is allowed")
        for name in ("on_disconnected", "on_reconnected"):
            if (callback := getattr(self, name)) is not None:
                check_callback(name, callback, "outage", may_be_async=True)
        if self.namespace is None:
            force_setattr(self, "namespace", namespace_of_endpoint(self.addresses))
        for name, namespace in (("namespace", self.namespace), ("namespace_v2", self.namespace_v2)):
            if namespace is not None:
                check_namespace(name, namespace)
        if isinstance(self.access_channel, str):
            force_setattr(self, "access_channel", self.access_channel.upper())
        if self.access_channel not in ("LOCAL", "CLOUD"):
            raise ConfigurationError(f"access_channel is {self.access_channel!r}, 'LOCAL' or 'CLOUD' is allowed")
        if self.trace_topic is not None:
            check_topic(self.trace_topic, "trace_topic")
        for name in ("access_key", *sorted(_SECRET)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and control_character_problem(name, value) is None):
                raise ConfigurationError(f"{name} is not shown here; text (str) without control characters is allowed")
        check_range("trace_msg_batch_num", self.trace_msg_batch_num, 1, 20)
        check_range("max_delay_level", self.max_delay_level, 1, MOST_DELAY_LEVELS)
        if self.secret_key_file:
            if self.secret_key:
                raise ConfigurationError("secret_key and secret_key_file are both given; keep the file")
        elif self.security_token and not self.access_key:
            raise ConfigurationError(
                "security_token is given without access_key and secret_key; a signature needs them"
            )
        elif bool(self.access_key) != bool(self.secret_key):
            given, missing = ("access_key", "secret_key") if self.access_key else ("secret_key", "access_key")
            raise ConfigurationError(f"{given} is given without {missing}; a signature needs both")
        check_range("poll_name_server_interval_ms", self.poll_name_server_interval_ms, 10, DAY_MS)
        check_range("heartbeat_broker_interval_ms", self.heartbeat_broker_interval_ms, 10, 110_000)
        check_range("persist_consumer_offset_interval_ms", self.persist_consumer_offset_interval_ms, 10, DAY_MS)
        check_range("mq_client_api_timeout_ms", self.mq_client_api_timeout_ms, 1, DAY_MS)

    def __repr__(self) -> str:
        shown = [name for name in self.__struct_fields__ if name not in _SECRET]
        return f"ClientOptions({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @property
    def credentials(self) -> Credentials | KeyFile | None:
        """What requests are signed with, None when they are not. Raises ConfigurationError: ``secret_key_file`` cannot be used here."""
        if self.secret_key_file:
            from sprocketmq.client.settings.key_file import KeyFile

            return KeyFile(self.secret_key_file, self.access_key, self.security_token)
        if not self.access_key or not self.secret_key:
            return None
        from sprocketmq.wire.frames.acl_signature import Credentials  # only who signs pays for it

        return Credentials(self.access_key, self.secret_key, self.security_token)

    def new_ssl_context(self) -> ssl.SSLContext | None:
        """What connections speak TLS with, None when they are plain."""
        if self.ssl_context is None and self.tls:
            return ssl.create_default_context()
        return self.ssl_context

    @property
    def addresses(self) -> str:
        """``namesrv_addr`` once it is known to be set."""
        assert self.namesrv_addr is not None
        return self.namesrv_addr

    def client_id(self, *, keep_default_name: bool = False) -> str:
        """``ip@instanceName[@unitName]``. Broadcasting consumers keep the name DEFAULT: their offset file lives under the client id
        and must be found again after a restart (ClientConfig.buildMQClientId, changeInstanceNameToPID)."""
        name = self.instance_name
        if name == DEFAULT_INSTANCE_NAME and not keep_default_name:
            # The serial keeps two clients made within one tick of the clock apart.
            name = f"{os.getpid()}#{time.time_ns() + next(_serial)}"
        parts = [self.client_ip or local_ip(), name]
        if self.unit_name:
            parts.append(self.unit_name)
        return "@".join(parts)
