# SPDX-License-Identifier: Apache-2.0
"""TLS and limits of connections from the settings of broker and name server (Java: NettyServerConfig, TlsHelper)."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.broker.observe.memory_span import memory_bytes
from sprocketmq.broker.service import Periodic
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.output.queued_bytes import HIGH_WATER_BYTES, QueuedBytes
from sprocketmq.net.process.clock import Clock
from sprocketmq.net.server import Limits
from sprocketmq.net.tls import ServerTls, TlsSettings
from sprocketmq.troubles import Troubles
from sprocketmq.wire.text.java_properties import parse_properties

if TYPE_CHECKING:
    from sprocketmq.broker.settings.config import NetworkConfig

_QUEUED_SHARE: Final = 16
_LEAST_QUEUED_BYTES: Final = 64 << 20
_MOST_QUEUED_BYTES: Final = 512 << 20
_POLL_INTERVAL_MS: Final = 500  # FileWatchService


def limits_of(config: NetworkConfig) -> Limits:
    return Limits(
        max_connections=config.max_connections,
        max_idle_s=config.server_channel_max_idle_time_seconds,
        slow_reader_timeout_s=config.slow_reader_timeout_ms / 1000,
        max_frame_bytes=config.frame_max_length,
        send_buffer_bytes=config.server_socket_snd_buf_size,
        receive_buffer_bytes=config.server_socket_rcv_buf_size,
    )


def queued_bytes_of(config: NetworkConfig, troubles: Troubles) -> QueuedBytes:
    limit_bytes = config.max_queued_bytes
    if not limit_bytes:
        limit_bytes = min(max(memory_bytes() // _QUEUED_SHARE, _LEAST_QUEUED_BYTES), _MOST_QUEUED_BYTES)
    return QueuedBytes(limit_bytes, config.write_buffer_high_water_mark or HIGH_WATER_BYTES, troubles)


def tls_of(config: NetworkConfig) -> ServerTls | None:
    """The TLS of a server; None if it is disabled. Raises ConfigurationError (a file cannot be read, or settings contradict each other)."""
    config = _with_file(config)
    mode = config.tls_server_mode
    has_certificate = bool(config.tls_server_cert_path or config.tls_server_key_path or config.tls_test_mode_enable)
    if mode == "disabled" or (not mode and not has_certificate):
        return None
    return ServerTls(
        TlsSettings(
            mode="enforcing" if mode == "enforcing" else "permissive",
            cert_path=config.tls_server_cert_path,
            key_path=config.tls_server_key_path,
            key_password=config.tls_server_key_password,
            need_client_auth=config.tls_server_need_client_auth or "none",
            auth_client=bool(config.tls_server_auth_client),
            trust_cert_path=config.tls_server_trust_cert_path,
            test_mode=bool(config.tls_test_mode_enable),
        )
    )


def client_tls_of(config: NetworkConfig) -> ssl.SSLContext | None:
    """The SSL context of this server as a client; None for plain. As in Apache, names are not checked. Raises ConfigurationError."""
    config = _with_file(config)
    if not config.tls_enable:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    try:
        if not config.tls_client_auth_server:
            context.verify_mode = ssl.CERT_NONE
        elif config.tls_client_trust_cert_path:
            context.load_verify_locations(config.tls_client_trust_cert_path)
        else:
            context.load_default_certs()
        if config.tls_client_cert_path:
            key_path = config.tls_client_key_path or None
            context.load_cert_chain(config.tls_client_cert_path, key_path, config.tls_client_key_password)
    except OSError as error:
        raise ConfigurationError(
            f"the files of tls.client.* cannot be used: {error.strerror or error}; certPath, keyPath and trustCertPath are PEM files"
        ) from error
    return context


def watched_certificates(clock: Clock, tls: ServerTls | None) -> list[Periodic]:
    return [] if tls is None else [Periodic(clock, _POLL_INTERVAL_MS, tls.reload_if_changed)]


def _with_file(config: NetworkConfig) -> NetworkConfig:
    """The settings, completed with those of ``tls.config.file`` that are not set."""
    if not config.tls_config_file:
        return config
    try:
        text = Path(config.tls_config_file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"tls.config.file {config.tls_config_file} cannot be read: {error}") from error
    ours = {field.encode_name for field in msgspec.structs.fields(config) if field.name.startswith("tls_")}
    # Misspelt keys are kept, so that they are reported.
    of_file = {key: value for key, value in parse_properties(text).items() if key in ours or key.startswith("tls.")}
    known = type(config).from_properties(of_file)
    silent = {
        field.name: getattr(known, field.name)
        for field in msgspec.structs.fields(config)
        if field.name.startswith("tls_") and getattr(config, field.name) in ("", None)
    }
    return msgspec.structs.replace(config, **silent)
