# SPDX-License-Identifier: Apache-2.0
"""The name server's key-value configuration: texts by namespace and key, written to the disk after each change (Java: KVConfigManager).

    kvConfig.json   {"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4;broker-b:4"}}}

RocketMQ itself uses only the namespace ORDER_TOPIC_CONFIG, which fixes the queues of topics whose order must survive the loss of a
broker. Any client may write here, so keys and bytes are limited (``maxKvConfigKeys``, ``maxKvConfigBytes``).
"""

from __future__ import annotations

from typing import Final

from sprocketmq.broker.tables.table_file import TableFile
from sprocketmq.errors import ConfigurationError
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.troubles import Troubles
from sprocketmq.wire.bodies import KVConfig
from sprocketmq.wire.text import fastjson

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"


class KVConfigTable:
    max_keys, max_bytes = 10_000, 4 << 20

    def __init__(self, path: str, troubles: Troubles | None = None) -> None:
        self._on_disk = ConfigFile(path or None)
        self.file = TableFile(
            self._on_disk, lambda: fastjson.dumps_sorted(KVConfig(config_table=self._table)), troubles=troubles
        )
        self._table: dict[str, dict[str, str]] = {}
        self._keys = self._bytes = 0

    def load(self) -> None:
        """Load the file. Raises StoreCorrupt if it and its spare copy are both unreadable."""
        content = self._on_disk.load(KVConfig.decode)
        if content is not None:
            self._table = content.config_table
            for namespace, texts in self._table.items():
                for key, value in texts.items():
                    self._keys += 1
                    self._bytes += _size(namespace, key, value)

    def __len__(self) -> int:
        return self._keys

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a text, in effect at once. Raises ConfigurationError (too many keys or bytes; nothing was changed)."""
        old = self._table.get(namespace, {}).get(key)
        keys = self._keys + (old is None)
        size = self._bytes + _size(namespace, key, value) - (0 if old is None else _size(namespace, key, old))
        if keys > self.max_keys and keys > self._keys:
            raise ConfigurationError(
                f"this name server has {self._keys} keys, {self.max_keys} are allowed; delete some, or raise maxKvConfigKeys"
            )
        if size > self.max_bytes and size > self._bytes:
            raise ConfigurationError(
                f"the keys and values would take {size} bytes, {self.max_bytes} are allowed; "
                "shorten them, or raise maxKvConfigBytes"
            )
        self._keys, self._bytes = keys, size
        if namespace not in self._table and len(self._table) >= self.max_keys:
            self._table = {name: texts for name, texts in self._table.items() if texts}  # drop empty namespaces
        self._table.setdefault(namespace, {})[key] = value
        self.file.changed()

    def delete(self, namespace: str, key: str) -> None:
        texts = self._table.get(namespace)
        value = None if texts is None else texts.pop(key, None)
        if texts is None or value is None:
            return
        self._keys, self._bytes = self._keys - 1, self._bytes - _size(namespace, key, value)
        self.file.changed()

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All texts of a namespace; None if it was never written."""
        return self._table.get(namespace)


def _size(namespace: str, key: str, value: str) -> int:
    return len(namespace) + len(key) + len(value)
