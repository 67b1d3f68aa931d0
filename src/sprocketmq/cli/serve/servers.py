# SPDX-License-Identifier: Apache-2.0
"""``serve``, ``namesrv`` and ``broker run``. Options take precedence over ``--set``, and ``--set`` over ``--config``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class ServerOptions:
    """The options that all servers have; a name server has no store."""

    host: str | None
    config: Path | None
    assignments: tuple[str, ...]
    secret_files: tuple[str, ...]
    until_stdin_closes: bool
    log_level: str
    log_format: str
    store: Path | None = None
    accept_store_loss: bool = False

    def settings(self, *of: type[NetworkConfig]) -> dict[str, str]:
        set_up_logging(self.log_level, self.log_format)
        loss = ["acceptStoreLoss=true"] if self.accept_store_loss else []
        return settings_of(self.config, [*self.assignments, *loss], self.secret_files, of=of)

    def broker(self, namesrv_addr: str, port: int | None, config: BrokerConfig) -> Broker:
        return Broker(
            namesrv_addr=namesrv_addr,
            host=self.host,
            port=port,
            store_dir=None if self.store is None else user_path(self.store).absolute(),
            config=config,
            config_file=self.config,
        )


def serve(
    *,
    namesrv_port: int,
    broker_port: int | None,
    console_port: int | None,
    allow_changes: bool,
    masks: tuple[str, ...],
    audit_file: Path | None,
    allowed_hosts: tuple[str, ...],
    token_file: Path | None,
    **common: Any,
) -> None:
    """Name server and broker in one process, and the console beside it. ``listenPort`` is the broker's port, as in a broker.conf."""
    options = ServerOptions(**common)
    settings = options.settings(BrokerConfig, NameServerConfig)
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
    if options.store is not None and not namesrv_config.kv_config_path:
        kv_config = user_path(options.store).absolute() / "namesrv" / "kvConfig.json"
        namesrv_config = msgspec.structs.replace(namesrv_config, kv_config_path=str(kv_config))
    host = options.host or broker_config.bind_address or None
    name_server = NameServer(host=host, port=namesrv_port, config=namesrv_config)

    def make_broker() -> Broker:
        # namesrvAddr names further name servers. They keep the routes when this process ends after a handover.
        addresses = ";".join(filter(None, (name_server.address, broker_config.namesrv_addr)))
        return options.broker(addresses, broker_port, broker_config)

    def make_console() -> Part:
        return ConsoleProcess(
            [
                *("--namesrv-addr", name_server.address, "--port", str(console_port)),
                *("--log-level", options.log_level, "--log-format", options.log_format),
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
        until_stdin_closes=options.until_stdin_closes,
        show=_status_line,
    )


def namesrv(*, port: int | None, **common: Any) -> None:
    options = ServerOptions(**common)
    settings = NameServerConfig.from_properties(options.settings(NameServerConfig))
    name_server = NameServer(host=options.host, port=port, config=settings)
    serve_until_stopped(
        [lambda: name_server],
        lambda parts: f"namesrv={_address(parts[0])}",
        until_stdin_closes=options.until_stdin_closes,
    )


def broker(*, namesrv_addr: str | None, port: int | None, **common: Any) -> None:
    options = ServerOptions(**common)
    settings = BrokerConfig.from_properties(options.settings(BrokerConfig))
    address = namesrv_addr or settings.namesrv_addr
    if not address:
        raise ConfigurationError(
            "no name server is given; use --namesrv-addr HOST:PORT, or namesrvAddr in --config, or NAMESRV_ADDR in the environment"
        )
    serve_until_stopped(
        [lambda: options.broker(address, port, settings)],
        lambda parts: f"broker={_address(parts[0])}",
        until_stdin_closes=options.until_stdin_closes,
        show=_status_line,
    )


def _console_link(parts: list[Part]) -> str:
    return "".join(f" console={part.announced}" for part in parts if hasattr(part, "announced"))


def _address(part: Part) -> str:
    assert isinstance(part, Broker | NameServer)
    return part.address


def _status_line(parts: list[Part]) -> StatusLine | None:
    broker = next((part for part in parts if isinstance(part, Broker)), None)
    return StatusLine(broker) if broker is not None and StatusLine.is_wanted() else None
