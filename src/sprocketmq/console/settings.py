# SPDX-License-Identifier: Apache-2.0
"""What a console is started with."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sprocketmq.errors import ConfigurationError

if TYPE_CHECKING:
    from sprocketmq.client.keyword_options import CommonOptions

_LEAST_INTERVAL_MS: Final = 500


@dataclass(frozen=True)
class ConsoleSettings:
    """The settings of a console.

    Args:
        options: options of the clients that query the cluster, such as ``namesrv_addr``.
        host: address to listen on.
        port: 0 for any free port.
        allow_changes: whether messages may be sent and dead letters replayed, groups changed, and groups and topics created.
        allowed_hosts: further host names that browsers may use for the console, such as that of a reverse proxy.
        masks: what matches is hidden in bodies, keys and properties.
        audit_file: each change is written to this file, as a line of JSON; None: changes are only logged.
        limit_ms: timeout of one request to the cluster.
        interval_ms: time between two updates of lag.
        token: what a browser has to show; None: a new one.

    Raises:
        ConfigurationError: a value is not allowed.
    """

    options: CommonOptions
    host: str = "127.0.0.1"
    port: int = 9877
    allow_changes: bool = False
    allowed_hosts: tuple[str, ...] = ()
    masks: tuple[re.Pattern[str], ...] = ()
    audit_file: Path | None = None
    limit_ms: int = 3_000
    interval_ms: int = 5_000
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.interval_ms < _LEAST_INTERVAL_MS:
            raise ConfigurationError(
                f"the interval is {self.interval_ms} ms; {_LEAST_INTERVAL_MS} ms or more are allowed"
            )
        if self.limit_ms <= 0:
            raise ConfigurationError(f"the limit is {self.limit_ms} ms; more than 0 are allowed")

    @property
    def is_local(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def compiled_masks(texts: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    found = []
    for text in texts:
        try:
            mask = re.compile(text)
        except re.error as error:
            raise ConfigurationError(
                f"the mask is {text!r}, which is no regular expression: {error}; one such as '[0-9]{{16}}' is allowed"
            ) from error
        if mask.fullmatch("") is not None:
            raise ConfigurationError(f"the mask {text!r} fits an empty text, too; give one that needs a character")
        found.append(mask)
    return tuple(found)
