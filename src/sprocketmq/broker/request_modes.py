"""In which mode each group reads each topic, where an administrator said so (5.x; Java: MessageRequestModeManager).

PULL is the only mode that this broker serves, so the table only remembers what it was told: a slave copies it, a tool reads it back. It is
kept in ``config/messageRequestMode.json``, as Apache keeps it.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sprocketmq.errors import StoreError
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.wire.bodies import MessageRequestModeSerializeWrapper, SetMessageRequestModeRequestBody

__all__ = ["RequestModes"]

log = logging.getLogger("sprocketmq.broker")


class RequestModes:
    """Modes by topic and group. ``root`` is the store directory, None for a broker in memory."""

    def __init__(self, root: Path | None) -> None:
        self._file = ConfigFile(None if root is None else root / "config" / "messageRequestMode.json")
        self._modes: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}

    async def start(self) -> None:
        """Read the file.

        Raises:
            StoreCorrupt: it and its spare copy are both unreadable.
        """
        content = self._file.load(MessageRequestModeSerializeWrapper.decode)
        if content is not None:
            self._modes = content.message_request_mode_map

    async def stop(self) -> None:
        """Nothing: each change was written when it came."""

    def content(self) -> MessageRequestModeSerializeWrapper:
        """What the file and GET_ALL_MESSAGE_REQUEST_MODE hold."""
        return MessageRequestModeSerializeWrapper(message_request_mode_map=self._modes)

    def set(self, mode: SetMessageRequestModeRequestBody) -> None:
        """Remember ``mode``, and write it down."""
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        try:
            self._file.save(self.content().encode())
        except StoreError as error:
            log.error("%s", error)
