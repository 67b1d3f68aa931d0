# SPDX-License-Identifier: Apache-2.0
"""The modes in which groups read topics, set by an administrator (5.x; Java: MessageRequestModeManager). PULL is the only one served, so
the table has no effect: slaves copy it, tools read it, and it is in ``config/messageRequestMode.json``."""

from __future__ import annotations

from pathlib import Path

from sprocketmq.broker.tables.table_file import TableFile
from sprocketmq.errors import ConfigurationError
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.troubles import Troubles
from sprocketmq.wire.bodies import MessageRequestModeSerializeWrapper, SetMessageRequestModeRequestBody


class RequestModes:
    def __init__(self, root: Path | None, max_modes: int = 10_000, troubles: Troubles | None = None) -> None:
        self._max_modes = max_modes
        self._on_disk = ConfigFile(None if root is None else root / "config" / "messageRequestMode.json")
        self.file = TableFile(self._on_disk, lambda: self.content().encode(), troubles=troubles)
        self._modes: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}

    async def start(self) -> None:
        content = self._on_disk.load(MessageRequestModeSerializeWrapper.decode, key="messageRequestModeMap")
        if content is not None:
            self._modes = content.message_request_mode_map

    async def stop(self) -> None:
        self.file.close()

    def __len__(self) -> int:
        return sum(map(len, self._modes.values()))

    def content(self) -> MessageRequestModeSerializeWrapper:
        return MessageRequestModeSerializeWrapper(message_request_mode_map=self._modes)

    def set(self, mode: SetMessageRequestModeRequestBody) -> None:
        """Set ``mode``, and write the file soon (``file.when_saved``). Raises ConfigurationError (there are too many)."""
        known = self._modes.get(mode.topic, {})
        if mode.consumer_group not in known and len(self) >= self._max_modes:
            raise ConfigurationError(f"there are {len(self)} request modes, no more are allowed; raise maxRequestModes")
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self.file.changed()
