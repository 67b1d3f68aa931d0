# SPDX-License-Identifier: Apache-2.0
"""``serve``, ``namesrv`` and ``broker run``. Options take precedence over ``--set``, and ``--set`` over ``--config``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from sprocketmq.broker import Broker, BrokerConfig, NameServer, NameServerConfig
from sprocketmq.broker.settings.config import NetworkConfig
from sprocketmq.cli.serve.console import ConsoleProcess
from sprocketmq.cli.serve.log_lines import set_up_logging
from sprocketmq.cli.serve.serving import Part, serve_until_stopped
from sprocketmq.cli.serve.settings import settings_of
from sprocketmq.cli.serve.status_line import StatusLine
from sprocketmq.errors import ConfigurationError
from sprocketmq.user_paths import user_path

_ACCEPT_LOSS = "acceptStoreLoss=true"


def serve(
    *,
    store: Path | None,
    accept_store_loss: bool,
    host: str | None,
    namesrv_port: int,
    broker_port: int | None,
    config: Path | None,
    assignments: Sequence[str],
    secret_files: Sequence[str],
    until_stdin_closes: bool,
    log_level: str,
    log_format: str,
    console_port: int | None,
    allow_changes: bool,
    masks: Sequence[str],
    audit_file: Path | None,
    allowed_hosts: Sequence[str],
    token_file: Path | None,
) -> None:
    """Name server and broker in one process, and the console beside it. ``listenPort`` is the broker's port, as in a broker.conf."""
    set_up_logging(log_level, log_format)
    assignments = [*assignments, *([_ACCEPT_LOSS] if accept_store_loss else [])]
    settings = settings_of(config, assignments, secret_files, of=(BrokerConfig, NameServerConfig))
    # The settings are for two servers: the name server gets the keys that only it has, both get the keys for sockets, and the broker gets
    # all others; it warns about unknown keys.
    of_namesrv = NameServerConfig.keys() - BrokerConfig.keys()
    of_sockets = NetworkConfig.keys()
    namesrv_config = NameServerConfig.from_properties(
        {key: value for key, value in settings.items() if key in of_namesrv or key in of_sockets}
    )
    broker_config = BrokerConfig.from_properties(
        {key: value for key, value in settings.items() if key not in of_namesrv}
    )
    if store is not None and not namesrv_config.kv_config_path:
        kv_config = user_path(store).absolute() / "namesrv" / "kvConfig.json"
        namesrv_config = msgspec.structs.replace(namesrv_config, kv_config_path=str(kv_config))
    name_server = NameServer(host=host or broker_config.bind_address or None, port=namesrv_port, config=namesrv_config)

    def make_broker() -> Broker:
        # namesrvAddr names further name servers. They keep the routes when this process ends after a handover.
        addresses = ";".join(filter(None, (name_server.address, broker_config.namesrv_addr)))
        return _broker(addresses, broker_port, store, host, broker_config, config)

    def make_console() -> Part:
        return ConsoleProcess(
            [
                *("--namesrv-addr", name_server.address, "--port", str(console_port)),
                *("--log-level", log_level, "--log-format", log_format),
                *(["--allow-changes"] if allow_changes else []),
                *(f"--mask={mask}" for mask in masks),
                *(f"--allow-host={name}" for name in allowed_hosts),
                *([f"--audit-file={audit_file}"] if audit_file is not None else []),
                *([f"--token-file={token_file}"] if token_file is not None else []),
            ]
        )

    serve_until_stopped(
        # The console before the broker: what is wrong with its options ends all before the store is opened and has clients.
        [lambda: name_server, *([make_console] if console_port is not None else []), make_broker],
        lambda parts: f"namesrv={_address(parts[0])} broker={_address(parts[-1])}" + _console_link(parts),
        until_stdin_closes=until_stdin_closes,
        show=_status_line,
    )


def namesrv(
    *,
    host: str | None,
    port: int | None,
    config: Path | None,
    assignments: Sequence[str],
    secret_files: Sequence[str],
    until_stdin_closes: bool,
    log_level: str,
    log_format: str,
) -> None:
    set_up_logging(log_level, log_format)
    given = settings_of(config, assignments, secret_files, of=[NameServerConfig])
    settings = NameServerConfig.from_properties(given)
    name_server = NameServer(host=host, port=port, config=settings)
    serve_until_stopped(
        [lambda: name_server], lambda parts: f"namesrv={_address(parts[0])}", until_stdin_closes=until_stdin_closes
    )


def broker(
    *,
    namesrv_addr: str | None,
    port: int | None,
    store: Path | None,
    accept_store_loss: bool,
    host: str | None,
    config: Path | None,
    assignments: Sequence[str],
    secret_files: Sequence[str],
    until_stdin_closes: bool,
    log_level: str,
    log_format: str,
) -> None:
    set_up_logging(log_level, log_format)
    assignments = [*assignments, *([_ACCEPT_LOSS] if accept_store_loss else [])]
    settings = BrokerConfig.from_properties(settings_of(config, assignments, secret_files, of=[BrokerConfig]))
    address = namesrv_addr or settings.namesrv_addr
    if not address:
        raise ConfigurationError(
            "no name server is given; use --namesrv-addr HOST:PORT, or namesrvAddr in --config, or NAMESRV_ADDR in the environment"
        )
    serve_until_stopped(
        [lambda: _broker(address, port, store, host, settings, config)],
        lambda parts: f"broker={_address(parts[0])}",
        until_stdin_closes=until_stdin_closes,
        show=_status_line,
    )


def _broker(
    namesrv_addr: str, port: int | None, store: Path | None, host: str | None, config: BrokerConfig, file: Path | None
) -> Broker:
    return Broker(
        namesrv_addr=namesrv_addr,
        host=host,
        port=port,
        store_dir=None if store is None else user_path(store).absolute(),
        config=config,
        config_file=file,
    )


def _console_link(parts: list[Part]) -> str:
    return "".join(f" console={part.announced}" for part in parts if hasattr(part, "announced"))


def _address(part: Part) -> str:
    assert isinstance(part, Broker | NameServer)
    return part.address


def _status_line(parts: list[Part]) -> StatusLine | None:
    broker = next((part for part in parts if isinstance(part, Broker)), None)
    return StatusLine(broker) if broker is not None and StatusLine.is_wanted() else None
