"""Settings of a server from ``--config FILE`` (Apache's broker.conf and namesrv.conf) and ``--set key=value``, as one text mapping.

The files are Java properties (wire.java_properties), read as UTF-8, which holds every file that Java's Latin-1 reading got right in ASCII,
and the ones people wrote with their editors.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.java_properties import parse_properties

__all__ = ["parse_properties", "settings_of"]


def settings_of(config: Path | None, assignments: Iterable[str]) -> dict[str, str]:
    """The settings of ``config``, then those of ``--set``, which win.

    Raises:
        ConfigurationError: the file cannot be read, or an assignment is not ``key=value``.
    """
    settings: dict[str, str] = {}
    if config is not None:
        try:
            settings.update(parse_properties(config.read_text("utf-8")))
        except OSError as error:
            raise ConfigurationError(
                f"--config {config} cannot be read: {error.strerror or error}; name a readable file in Apache's properties format"
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigurationError(
                f"--config {config} is not text in UTF-8 (byte {error.start}); save it as UTF-8"
            ) from error
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigurationError(
                f"--set {assignment!r} is given, key=value is allowed, as in --set flushDiskType=SYNC_FLUSH"
            )
        settings[key.strip()] = value.strip()
    return settings
