# SPDX-License-Identifier: Apache-2.0
"""Settings of a server from ``--config FILE`` (Apache's broker.conf and namesrv.conf), the environment, ``--set-file`` and ``--set``.
Files are read as UTF-8, because editors write it; Java reads Latin-1, which is the same for ASCII."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.settings.key_names import unknown_key
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.text.java_properties import parse_properties

if TYPE_CHECKING:
    from sprocketmq.broker.settings.config import NetworkConfig

_VARIABLE: Final = "SPROCKETMQ_SET_"


def settings_of(
    config: Path | None,
    assignments: Iterable[str],
    secret_files: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    *,
    of: Sequence[type[NetworkConfig]] = (),
) -> dict[str, str]:
    """The settings from ``config``, the environment, ``--set-file`` and ``--set``; a later one overrides an earlier one. ``of``: the
    configurations that have the allowed keys; default: all are, as always in ``config``. Other users of the machine see the arguments of
    ``--set``; for passwords there are files, and variables (``SPROCKETMQ_SET_`` and the key, with ``__`` for a dot)."""
    settings: dict[str, str] = {}

    def put(where: str, key: str, value: str) -> None:
        if of and not any(one.takes(key) for one in of):
            raise ConfigurationError(unknown_key(key, frozenset().union(*(one.keys() for one in of)), where))
        settings[key] = value

    if config is not None:
        settings.update(parse_properties(_text_of("--config", config, " in Apache's properties format")))
    for name, value in sorted((os.environ if environment is None else environment).items()):
        if name.startswith(_VARIABLE) and name != _VARIABLE:
            put(f"the variable {name}", name[len(_VARIABLE) :].replace("__", "."), value.strip())
    for assignment in secret_files:
        key, equals, file = assignment.partition("=")
        if not equals or not key.strip() or not file.strip():
            raise ConfigurationError(
                f"--set-file {assignment!r} is given, key=file is allowed, as in --set-file tls.server.keyPassword=./password"
            )
        put("--set-file", key.strip(), _text_of("--set-file", Path(file.strip())).strip())
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigurationError(
                f"--set {assignment!r} is given, key=value is allowed, as in --set flushDiskType=SYNC_FLUSH"
            )
        put("--set", key.strip(), value.strip())
    return settings


def _text_of(option: str, file: Path, kind: str = "") -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{option} {file} cannot be read: {error.strerror or error}; name a readable file{kind}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{option} {file} is not text in UTF-8 (byte {error.start}); save it as UTF-8"
        ) from error
