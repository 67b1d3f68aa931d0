# SPDX-License-Identifier: Apache-2.0
"""Paths that begin with ``~``. Without HOME, and for a user that is not in /etc/passwd (containers), pathlib raises RuntimeError."""

from __future__ import annotations

import os
from pathlib import Path

from sprocketmq.errors import ConfigurationError


def user_path(path: str | os.PathLike[str]) -> Path:
    """``path`` with the home directory in the place of ``~``. Raises ConfigurationError (there is no home directory)."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigurationError(
            f"the path is {os.fspath(path)!r}, and this user has no home directory; set HOME, or give the whole path"
        ) from None
