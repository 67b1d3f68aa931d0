# SPDX-License-Identifier: Apache-2.0
"""The web console: pages about a cluster. ``sprocketmq console`` serves it for any cluster, ``sprocketmq serve --console`` for the
embedded one. It uses the public client alone."""

from __future__ import annotations

import sprocketmq.logs  # noqa: F401 - its loggers tell what peers say in one line
from sprocketmq.console.server import ConsoleServer
from sprocketmq.console.settings import ConsoleSettings

__all__ = ["ConsoleServer", "ConsoleSettings"]
