# SPDX-License-Identifier: Apache-2.0
"""Settings of broker and name server, under Apache's own key names (Java: BrokerConfig, MessageStoreConfig, NamesrvConfig).

Attributes are snake_case, files and ``from_properties`` use Apache's camelCase, so that an existing ``broker.conf`` works. An unknown key
is named in one warning and ignored; ``--set`` refuses it. A ConfigurationError names key, value and what would be right.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec.structs import force_setattr

from sprocketmq.broker.settings.key_names import nearest_key
from sprocketmq.core.access.addresses import AddressPattern, address_patterns
from sprocketmq.core.resource_names import TRACE_TOPIC
from sprocketmq.core.retry.retry_schedule import DEFAULT_DELAY_LEVELS, DelayLevels
from sprocketmq.errors import ConfigurationError
from sprocketmq.plain_values import plain_value
from sprocketmq.store import FlushDiskType, StoreConfig
from sprocketmq.store.queue.unit import UNIT_SIZE_BYTES

log = logging.getLogger("sprocketmq.broker")

_MIB: Final = 1024 * 1024
_GIB: Final = 1024 * _MIB

# Keys whose Apache spelling is not plain camelCase of ours.
_WIRE_NAMES: Final = {
    "namesrv_addr": "namesrvAddr",
    "broker_ip": "brokerIP1",
    "short_polling_time_ms": "shortPollingTimeMills",
    "register_namesrv_period_ms": "registerNameServerPeriod",
    "flush_consumer_offset_interval_ms": "flushConsumerOffsetInterval",
    "flush_delay_offset_interval_ms": "flushDelayOffsetInterval",
    "channel_expired_timeout_ms": "channelExpiredTimeout",
    "subscription_expired_timeout_ms": "subscriptionExpiredTimeout",
    "filter_data_clean_time_span_ms": "filterDataCleanTimeSpan",
    "flush_interval_commit_log_ms": "flushIntervalCommitLog",
    "flush_interval_consume_queue_ms": "flushIntervalConsumeQueue",
    "sync_flush_timeout_ms": "syncFlushTimeout",
    "transaction_check_interval_ms": "transactionCheckInterval",
    "transaction_timeout_ms": "transactionTimeOut",
    "scan_not_active_broker_interval_ms": "scanNotActiveBrokerInterval",
    "max_transfer_bytes_in_memory": "maxTransferBytesOnMessageInMemory",
    "max_transfer_count_in_memory": "maxTransferCountOnMessageInMemory",
    "tls_server_mode": "tls.server.mode",
    "tls_config_file": "tls.config.file",
    "tls_test_mode_enable": "tls.test.mode.enable",
    "tls_server_need_client_auth": "tls.server.need.client.auth",
    "tls_server_key_path": "tls.server.keyPath",
    "tls_server_key_password": "tls.server.keyPassword",
    "tls_server_cert_path": "tls.server.certPath",
    "tls_server_auth_client": "tls.server.authClient",
    "tls_server_trust_cert_path": "tls.server.trustCertPath",
    "tls_enable": "tls.enable",
    "tls_client_key_path": "tls.client.keyPath",
    "tls_client_key_password": "tls.client.keyPassword",
    "tls_client_cert_path": "tls.client.certPath",
    "tls_client_auth_server": "tls.client.authServer",
    "tls_client_trust_cert_path": "tls.client.trustCertPath",
    "frame_max_length": "com.rocketmq.remoting.frameMaxLength",
    "slow_reader_timeout_ms": "slowReaderTimeoutMillis",
    "server_socket_snd_buf_size": "serverSocketSndBufSize",
    "server_socket_rcv_buf_size": "serverSocketRcvBufSize",
    "broker_ip2": "brokerIP2",
    "ha_send_heartbeat_interval_ms": "haSendHeartbeatInterval",
    "ha_housekeeping_interval_ms": "haHousekeepingInterval",
    "slave_timeout_ms": "slaveTimeout",
}

# Keys of a working broker.conf / namesrv.conf for parts that a single embedded process does not have (threads, the controller, page cache
# settings). They are accepted without a warning, because users would learn to ignore warnings.
_WITHOUT_EFFECT: Final = re.compile(
    r"(authentication|authorization)(MetadataProvider|Provider|Strategy)|(user|acl|stateful)[A-Za-z]*Cache[A-Z].*|.*ThreadPoolNums|.*ThreadPoolQueueCapacity|.*ThreadPoolQueueNums|warmMapedFileEnable|transientStorePool.*"
    r"|useReentrantLockWhenPutMessage|server[A-Z].*|client[A-Z].*|useEpollNativeSelector"
    r"|transactionOp[A-Z].*|storePathConsumeQueue|storePathIndex|storeCheckpoint|abortFile|kvConfigPath|configStorePath|productEnvName|clusterTest|enableControllerInNamesrv"
)

# Keys of the name server. Only its file may set the allowed addresses: with a request, a stranger could lock out everybody.
_NEVER_CHANGED: Final = frozenset(
    ("brokerAllowedAddresses", "configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")
)

_SECRET: Final = re.compile(r"initAuthenticationUser|.*Credentials|.*[pP]assword|.*[sS]ecretKey")

_LIMITS: Final = (
    "max_topics",
    "max_subscription_groups",
    "max_groups_per_connection",
    "max_subscriptions_per_group",
    "max_expression_length",
    "max_consumer_offsets",
    "max_filters",
    "max_queue_locks",
    "max_names_per_request",
    "max_messages_per_batch",
    "max_request_modes",
    "max_tallies",
)

C = TypeVar("C", bound="_Config")


@functools.cache
def _fields_of(config: type[_Config]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The settings of a class. Cached, because finding them takes milliseconds, and any client may request a broker's settings."""
    return msgspec.structs.fields(config)


def _wire_name(field: str) -> str:
    head, *rest = field.split("_")
    return _WIRE_NAMES.get(field, head + "".join(part.capitalize() for part in rest))


def shown_setting(key: str, value: str) -> str:
    """``value`` for errors and log lines; hidden if the key holds a secret."""
    return "<not told>" if _SECRET.fullmatch(key) else value


class _Config(msgspec.Struct, kw_only=True, frozen=True, rename=_wire_name):
    @classmethod
    def from_properties(cls: type[C], properties: Mapping[str, str], **overrides: Any) -> C:
        """Make settings from Apache's keys, with all values as text.

        ``properties``: as read from a ``broker.conf`` or ``namesrv.conf``. ``overrides``: fields by our own names that win over
        ``properties``. Raises ConfigurationError (a value is not of the key's type, or out of its range).
        """
        unknown = sorted(key for key in properties if not cls.takes(key))
        if unknown:
            known = cls.keys()
            named = (f"{key} (did you mean {near}?)" if (near := nearest_key(key, known)) else key for key in unknown)
            log.warning("unknown keys are ignored: %s; check their spelling", ", ".join(named))
        values: dict[str, Any] = {}
        for field in _fields_of(cls):
            text = properties.get(field.encode_name)
            if text is None:
                continue
            try:
                values[field.name] = msgspec.convert(text.strip(), field.type, strict=False)
            except msgspec.ValidationError as error:
                setting = shown_setting(field.encode_name, repr(text))
                raise ConfigurationError(
                    f"{field.encode_name} is {setting}, {_allowed(field.type)} is allowed"
                ) from error
        return cls(**{**values, **overrides})

    @classmethod
    def keys(cls) -> frozenset[str]:
        """Every key, by Apache's names."""
        return frozenset(field.encode_name for field in _fields_of(cls))

    @classmethod
    def takes(cls, key: str) -> bool:
        """Whether a key has a meaning here, or is for a part of Apache's servers that is not needed here."""
        known = cls.keys()
        return key in known or _WITHOUT_EFFECT.fullmatch(key) is not None

    def without_secrets(self) -> dict[str, str]:
        """:meth:`to_properties` without keys that hold passwords, which readers of the settings must not learn."""
        return {key: text for key, text in self.to_properties().items() if not _SECRET.fullmatch(key)}

    def to_properties(self) -> dict[str, str]:
        """All settings by Apache's keys, as text, for GET_BROKER_CONFIG."""
        texts: dict[str, str] = {}
        for field in _fields_of(type(self)):
            value = getattr(self, field.name)
            if value is None:  # not set; Java leaves such a key out, too
                continue
            texts[field.encode_name] = str(value).lower() if isinstance(value, bool) else str(value)
        return texts

    def _check(self, field: str, fine: Callable[[Any], bool], allowed: str) -> None:
        value = getattr(self, field)
        if not fine(value):
            raise ConfigurationError(f"{_wire_name(field)} is {value!r}, {allowed} is allowed")


def _allowed(kind: Any) -> str:
    choices = getattr(kind, "__args__", None)
    if choices and all(isinstance(choice, str) for choice in choices):
        return " or ".join(choices)
    return {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "text")


class NetworkConfig(_Config, kw_only=True, frozen=True, rename=_wire_name):
    """The common settings of broker and name server: TLS under the names of Apache's system properties, and limits of connections.

    Attributes:
        tls_server_mode: disabled, permissive (TLS and plain on one port) or enforcing; default: permissive when a certificate is given
            (here or in ``tls_config_file``), else disabled.
        tls_config_file: properties file with further ``tls.*`` keys; keys that are given directly have priority.
        tls_test_mode_enable: make a self-signed certificate at the start; needs the package ``cryptography``.
        tls_enable: use TLS where this server is the client: a broker to its name servers, a name server to brokers.
        tls_client_auth_server, tls_client_trust_cert_path: check the other side's certificate, against these authorities if given.
        frame_max_length: largest frame in bytes; a connection with a longer one is closed.
        server_channel_max_idle_time_seconds: a connection that is silent for this time is closed.
        max_connections: further connections are closed at once.
        slow_reader_timeout_ms: a peer for which more than 64 KiB wait must read 64 KiB in this time, or its connection is closed.
        write_buffer_high_water_mark: limit of unsent bytes for one peer, above which its requests wait; 0: 4 MiB (netty: 64 KiB).
        max_queued_bytes: limit for all connections together, from and for their peers; 0: a sixteenth of the memory, 64 to 512 MiB.
        server_socket_snd_buf_size, server_socket_rcv_buf_size: the system's buffers of each connection; 0: the system's default.
    """

    tls_server_mode: Literal["", "disabled", "permissive", "enforcing"] = ""
    tls_config_file: str = ""
    tls_test_mode_enable: bool | None = None
    tls_server_need_client_auth: Literal["", "none", "optional", "require"] = ""
    tls_server_key_path: str = ""
    tls_server_key_password: str = ""
    tls_server_cert_path: str = ""
    tls_server_auth_client: bool | None = None
    tls_server_trust_cert_path: str = ""
    tls_enable: bool | None = None
    tls_client_key_path: str = ""
    tls_client_key_password: str = ""
    tls_client_cert_path: str = ""
    tls_client_auth_server: bool | None = None
    tls_client_trust_cert_path: str = ""
    frame_max_length: int = 16 * _MIB
    server_channel_max_idle_time_seconds: int = 120
    max_connections: int = 65_536
    slow_reader_timeout_ms: int = 60_000
    write_buffer_high_water_mark: int = 0
    max_queued_bytes: int = 0
    server_socket_snd_buf_size: int = 0
    server_socket_rcv_buf_size: int = 0

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if (plain := plain_value(value)) is not value:
                force_setattr(self, field, plain)
        self._check("frame_max_length", lambda size: 1024 <= size <= _GIB, "a size from 1024 to 1073741824 bytes")
        self._check("max_connections", lambda number: number > 0, "1 or more")
        for field in ("server_socket_snd_buf_size", "server_socket_rcv_buf_size"):
            self._check(field, lambda size: 0 <= size <= _GIB, "0 (as the system gives it) to 1073741824 bytes")
        mark = "0 (4 MiB) or a size from 65536 to 1073741824 bytes"
        self._check("write_buffer_high_water_mark", lambda size: not size or 65_536 <= size <= _GIB, mark)
        queued = "0 (a sixteenth of the memory) or a size from 1048576 bytes on"
        self._check("max_queued_bytes", lambda size: not size or size >= _MIB, queued)
        self._check("slow_reader_timeout_ms", lambda ms: ms > 0, "1 or more milliseconds")
        self._check("server_channel_max_idle_time_seconds", lambda seconds: seconds > 0, "1 or more seconds")


class BrokerConfig(NetworkConfig, kw_only=True, frozen=True, rename=_wire_name):
    """Settings of a :class:`~sprocketmq.broker.Broker`; defaults are Apache's where a default exists there.

    Attributes (the ones people set; the rest are in the source with their Apache names):
        auto_create_topic_enable: a send to an unknown topic creates it with up to ``default_topic_queue_nums`` queues.
        auto_create_subscription_group: a pull or heartbeat of an unknown group creates it.
        message_delay_level: the delay levels, also the retry schedule: texts of number and unit s, m, h or d.
        flush_disk_type: ASYNC_FLUSH answers when the message is in the page cache (survives kill -9); SYNC_FLUSH when it is on the disk.
        max_message_size: largest body, 4 MiB.
        broker_ip: address or name announced to clients; the bound address by default.
        long_polling_enable: hold a pull that finds nothing until a message arrives or its time is over.
        enable_property_filter: allow SQL92 subscriptions.
        acl_enable: require accounts of 4.9, from ``acl_file``; see the guide on security.
        authentication_enabled, authorization_enabled: require users, and policies, of 5.x.
        broker_role: ASYNC_MASTER answers a send without its slaves; SYNC_MASTER waits until one slave has the message.
        max_topics, max_subscription_groups: a send, heartbeat or administrator that would create more is refused.
        max_groups_per_connection: consumer groups, and as many producer groups, that one connection may be a member of.
        max_subscriptions_per_group, max_expression_length: limits of one member's heartbeat; characters of a filter, also in a pull.
        max_names_per_request: topics or groups that one request may name.
        max_messages_per_batch: messages in one SEND_BATCH_MESSAGE. Apache has no limit, but counts offsets of a batch in 16 bits (5.x).
        ha_listen_port: the port for slaves. 0: listenPort + 1, or any free port (without a store directory: none); -1: none.
        ha_allowed_addresses: addresses that may copy the log, joined by ``;``, ``*`` for all; see the guide on security.
        broker_ip2: address that is reported to slaves; ``broker_ip`` by default.

    Raises:
        ConfigurationError: a value is out of its range.
    """

    # identity and network
    broker_name: str = "broker-a"
    broker_cluster_name: str = "DefaultCluster"
    broker_ip: str = ""
    bind_address: str = ""
    listen_port: int = 10911
    namesrv_addr: str = ""
    broker_permission: int = 6
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    register_namesrv_period_ms: int = 30_000
    enable_split_registration: bool = True  # Apache: false, so a registration that exceeds a frame of 16 MiB is lost
    split_registration_size: int = 800
    channel_expired_timeout_ms: int = 120_000
    # watching
    metrics_exporter_type: Literal["DISABLE", "PROM"] = "DISABLE"
    metrics_prom_exporter_host: str = ""
    metrics_prom_exporter_port: int = 5557
    metrics_label: str = ""
    slow_request_ms: int = 100  # ours: requests that block the loop for this time are logged
    # topics and groups
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = TRACE_TOPIC
    notify_consumer_ids_changed_enable: bool = True
    use_server_side_reset_offset: bool = True
    server_load_balancer_enable: bool = True
    enable_split_metadata: bool = True
    split_metadata_size: int = 2_000
    enable_mixed_message_type: bool = False
    config_black_list: str = "configBlackList;brokerConfigPath"
    # pull
    long_polling_enable: bool = True
    short_polling_time_ms: int = 1_000
    lite_pull_message_enable: bool = True
    enable_property_filter: bool = False
    filter_support_retry: bool = False
    filter_data_clean_time_span_ms: int = 24 * 3600 * 1000
    reject_pull_consumer_enable: bool = False
    subscription_expired_timeout_ms: int = 600_000
    access_message_in_memory_max_ratio: int = 40
    max_transfer_bytes_in_memory: int = 256 * 1024
    # Apache: 32, which is slow for bulk readers; here the number of bytes is the limit.
    max_transfer_count_in_memory: int = 1024
    # retry and delay
    timer_wheel_enable: bool = True
    timer_max_delay_sec: int = 3 * 24 * 3600
    timer_precision_ms: int = 1_000
    timer_roll_window_slot: int = 2 * 24 * 3600
    timer_congest_num_each_slot: int = 2**31 - 1
    timer_flush_interval_ms: int = 1_000
    mapped_file_size_timer_log: int = 100 * _MIB
    recall_message_enable: bool = False
    allow_recall_when_broker_not_writeable: bool = True
    append_topic_for_timer_delete_key: bool = False
    message_delay_level: str = DEFAULT_DELAY_LEVELS
    flush_consumer_offset_interval_ms: int = 5_000
    flush_delay_offset_interval_ms: int = 10_000
    # transactions and replies
    reject_transaction_message: bool = False
    transaction_check_interval_ms: int = 30_000
    transaction_timeout_ms: int = 6_000
    transaction_check_max: int = 15
    store_reply_message_enable: bool = True
    max_parked_pulls: int = 100_000
    max_parked_pulls_per_connection: int = 20_000
    # ours: what strangers may leave in the broker's tables, and one request may name; more is refused
    max_topics: int = 50_000
    max_subscription_groups: int = 50_000
    max_groups_per_connection: int = 1_000
    max_subscriptions_per_group: int = 1_000
    max_expression_length: int = 16_384
    max_consumer_offsets: int = 1_000_000
    max_filters: int = 2_000
    max_queue_locks: int = 100_000
    max_names_per_request: int = 2_000
    max_messages_per_batch: int = 10_000
    max_request_modes: int = 10_000
    max_tallies: int = 100_000  # statistics per topic and group
    # access control
    acl_enable: bool = False
    acl_file: str = ""
    rocketmq_home: str = ""
    authentication_enabled: bool = False
    authentication_whitelist: str = ""
    authorization_enabled: bool = False
    authorization_whitelist: str = ""
    init_authentication_user: str = ""
    inner_client_authentication_credentials: str = ""
    # store (names as in StoreConfig)
    store_path_root_dir: str = ""
    store_path_commit_log: str | None = None
    flush_disk_type: Literal["ASYNC_FLUSH", "SYNC_FLUSH"] = "ASYNC_FLUSH"
    sync_flush_timeout_ms: int = 5_000
    flush_interval_commit_log_ms: int = 500
    flush_interval_consume_queue_ms: int = 1_000
    max_message_size: int = 4 * _MIB
    max_filter_message_size: int = 16_000
    mapped_file_size_commit_log: int = _GIB
    mapped_file_size_consume_queue: int = 300_000 * UNIT_SIZE_BYTES
    check_crc_on_recover: bool = True
    accept_store_loss: bool = False
    file_reserved_time: int = 72
    delete_when: str = "04"
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    delete_file_batch_max: int = 10
    clean_file_forcibly_enable: bool = True
    message_index_enable: bool = True
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    default_query_max_num: int = 32
    max_msgs_num_batch: int = 64
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 48 * _MIB
    # replication
    broker_id: int = 0
    broker_role: Literal["ASYNC_MASTER", "SYNC_MASTER"] = "ASYNC_MASTER"
    broker_ip2: str = ""
    ha_listen_port: int = 0
    ha_allowed_addresses: str = ""
    ha_send_heartbeat_interval_ms: int = 5_000
    ha_housekeeping_interval_ms: int = 20_000
    ha_transfer_batch_size: int = 32 * 1024
    ha_max_gap_not_in_sync: int = 256 * _MIB
    slave_timeout_ms: int = 3_000
    slave_read_enable: bool = False

    def __post_init__(self) -> None:
        self._check("listen_port", lambda port: 0 <= port < 65536, "a port from 0 (any free one) to 65535")
        super().__post_init__()
        self._check_access()
        self._check("max_parked_pulls", lambda number: number > 0, "1 or more")
        self._check("max_parked_pulls_per_connection", lambda number: number > 0, "1 or more")
        self._check("broker_permission", lambda perm: perm in (2, 4, 6), "2 (write), 4 (read) or 6 (both)")
        self._check("default_topic_queue_nums", lambda number: 0 < number <= 1024, "a number from 1 to 1024")
        self._check("slow_request_ms", lambda ms: ms > 0, "1 or more milliseconds")
        self._check("max_message_size", lambda size: 0 < size <= 15 * _MIB, "a size from 1 to 15728640 bytes (15 MiB)")
        self._check("max_transfer_count_in_memory", lambda number: number > 0, "1 or more")
        self._check("max_transfer_bytes_in_memory", lambda size: size > 0, "1 or more")
        self._check("access_message_in_memory_max_ratio", lambda percent: 0 <= percent <= 100, "0 to 100 percent")
        for field in _LIMITS:
            self._check(field, lambda number: number > 0, "1 or more")
        self._check("split_registration_size", lambda number: 2 <= number <= 10_000, "2 to 10000 topics")
        self._check("register_namesrv_period_ms", lambda ms: 10_000 <= ms <= 60_000, "10000 to 60000 milliseconds")
        for field in ("flush_consumer_offset_interval_ms", "flush_delay_offset_interval_ms", "short_polling_time_ms",
                      "channel_expired_timeout_ms", "flush_interval_commit_log_ms", "flush_interval_consume_queue_ms",
                      "sync_flush_timeout_ms", "transaction_check_interval_ms"):  # fmt: skip
            self._check(field, lambda ms: ms > 0, "1 or more milliseconds")
        self._check("broker_id", lambda number: number == 0, "0 (this broker is a master; a slave of it is Apache's)")
        self._check("broker_role", lambda role: role in ("ASYNC_MASTER", "SYNC_MASTER"), "ASYNC_MASTER or SYNC_MASTER")
        self._check("ha_listen_port", lambda port: -1 <= port < 65536,
                    "-1 (no replication), 0 (listenPort + 1, or any free port if that is taken) or a port up to 65535")  # fmt: skip
        for field in ("ha_send_heartbeat_interval_ms", "ha_housekeeping_interval_ms", "slave_timeout_ms"):
            self._check(field, lambda ms: ms > 0, "1 or more milliseconds")
        self._check("ha_transfer_batch_size", lambda size: 0 < size <= 4 * _MIB - 12, "1 to 4194292 bytes")
        self._check("ha_max_gap_not_in_sync", lambda size: size > 0, "1 or more bytes")
        self._check("transaction_timeout_ms", lambda ms: ms >= 0, "0 or more milliseconds")
        self._check("transaction_check_max", lambda times: times > 0, "1 or more")
        DelayLevels.parse(self.message_delay_level)
        self._check("timer_precision_ms", lambda ms: ms in (100, 200, 500, 1000), "100, 200, 500 or 1000 milliseconds")
        self._check("timer_max_delay_sec", lambda seconds: 0 < seconds <= 2**31 - 1, "1 to 2147483647 seconds")
        self._check("timer_roll_window_slot", lambda slots: slots >= 0, "0 or more")
        for field in ("split_metadata_size", "max_filter_message_size", "default_query_max_num"):
            self._check(field, lambda number: number > 0, "1 or more")
        for field in ("filter_data_clean_time_span_ms", "subscription_expired_timeout_ms"):
            self._check(field, lambda ms: ms > 0, "1 or more milliseconds")
        self._check(
            "metrics_prom_exporter_port", lambda port: 0 <= port < 65536, "a port from 0 (any free one) to 65535"
        )
        self._check("timer_congest_num_each_slot", lambda number: number > 0, "1 or more")
        self._check("timer_flush_interval_ms", lambda ms: ms > 0, "1 or more milliseconds")
        self._check("mapped_file_size_timer_log", lambda size: 1024 <= size < 2**31, "1024 to 2147483647 bytes")
        self.slave_addresses()
        self.store_config()
        self._check("broker_name", _is_name, "1 to 127 characters of % | a-z A-Z 0-9 _ -")
        self._check("broker_cluster_name", _is_name, "1 to 127 characters of % | a-z A-Z 0-9 _ -")

    def _check_access(self) -> None:
        if self.acl_enable and (self.authentication_enabled or self.authorization_enabled):
            raise ConfigurationError(
                "aclEnable and authenticationEnabled are both on; choose the accounts of 4.9 or the users of 5.x"
            )
        if self.authorization_enabled and not self.authentication_enabled:
            raise ConfigurationError(
                "authorizationEnabled is true without authenticationEnabled, so anybody could pass for anybody; set both"
            )

    def slave_addresses(self) -> list[AddressPattern]:
        """``haAllowedAddresses``, read. Raises ConfigurationError: one is malformed."""
        return address_patterns(self.ha_allowed_addresses, "haAllowedAddresses")

    def store_config(self) -> StoreConfig:
        own: dict[str, Any] = {"flush_disk_type": FlushDiskType(self.flush_disk_type)}
        own["max_filter_units"] = max(1, self.max_filter_message_size // UNIT_SIZE_BYTES)
        shared = {field.name for field in dataclasses.fields(StoreConfig)} & set(self.__struct_fields__)
        return StoreConfig(**{**{field: getattr(self, field) for field in shared}, **own})


class NameServerConfig(NetworkConfig, kw_only=True, frozen=True, rename=_wire_name):
    """Settings of a :class:`~sprocketmq.broker.NameServer`.

    Attributes:
        listen_port: 9876; 0 for any free one.
        scan_not_active_broker_interval_ms: how often the name server looks for silent brokers (5,000).
        order_message_enable: routes carry the order configuration of their topic.
        need_wait_for_service, wait_seconds_for_service: no routes in the first 45 s, until all brokers have come back.
        support_acting_master: show the slave with the lowest id as master if a 5.x group that allows this has none.
        notify_min_broker_id_changed: notify 5.x brokers of the lowest id of their group.
        delete_topic_with_broker_registration: a registration also removes the topics that it does not name.
        kv_config_path: file of the key-value configuration; without it the configuration is in memory only.
        config_store_path: file into which settings are written when a request changes them.
        config_black_list: further keys, joined by ``;``, that no request may change.
        broker_allowed_addresses: addresses that may register brokers and change topics, keys and settings, joined by ``;``. Default:
            all, as in Apache. Reading is open to all clients. No request can change this setting.
        max_brokers, max_topics: how many brokers, and topics of one broker each, may be registered.
        max_registration_bytes: size of one registration, uncompressed; brokers with more topics send parts (``enableSplitRegistration``).
        max_kv_config_keys, max_kv_config_bytes: limits of the key-value configuration.

    TLS and limits: see :class:`NetworkConfig`.
    """

    listen_port: int = 9876
    bind_address: str = ""
    scan_not_active_broker_interval_ms: int = 5_000
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    order_message_enable: bool = False
    return_order_topic_config_to_broker: bool = True
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45
    support_acting_master: bool = False
    notify_min_broker_id_changed: bool = False
    delete_topic_with_broker_registration: bool = False
    kv_config_path: str = ""
    config_store_path: str = ""
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    # ours: who may change something, and what strangers may leave here; more is refused
    broker_allowed_addresses: str = ""
    max_brokers: int = 1_000
    max_topics: int = 200_000
    max_registration_bytes: int = 4 * _MIB
    max_kv_config_keys: int = 10_000
    max_kv_config_bytes: int = 4 * _MIB

    def __post_init__(self) -> None:
        self._check("listen_port", lambda port: 0 <= port < 65536, "a port from 0 (any free one) to 65535")
        super().__post_init__()
        self.broker_addresses()
        self._check("scan_not_active_broker_interval_ms", lambda ms: ms > 0, "1 or more milliseconds")
        for field in (
            "max_brokers",
            "max_topics",
            "max_registration_bytes",
            "max_kv_config_keys",
            "max_kv_config_bytes",
        ):
            self._check(field, lambda number: number > 0, "1 or more")
        self._check("wait_seconds_for_service", lambda seconds: seconds >= 0, "0 or more seconds")

    def broker_addresses(self) -> list[AddressPattern]:
        """``brokerAllowedAddresses``, read. Raises ConfigurationError: one is malformed."""
        return address_patterns(self.broker_allowed_addresses, "brokerAllowedAddresses")

    def is_black_listed(self, keys: Iterable[str]) -> bool:
        """Whether a request may not change one of ``keys``. Java: DefaultRequestProcessor.validateBlackListConfigExist."""
        listed = {key.strip() for key in self.config_black_list.split(";")}
        return not listed.isdisjoint(keys) or not _NEVER_CHANGED.isdisjoint(keys)


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[%|a-zA-Z0-9_-]{1,127}", text) is not None
