"""The name server's key-value configuration: texts by namespace and key, on disk after each change (Java: KVConfigManager).

    kvConfig.json   {"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4;broker-b:4"}}}

Of the namespaces only ORDER_TOPIC_CONFIG means something to RocketMQ itself: it fixes the queues of topics whose order must outlive a
broker.
"""

from __future__ import annotations

from typing import Final

from sprocketmq.store.config_files import ConfigFile
from sprocketmq.wire.bodies import KVConfig

__all__ = ["ORDER_TOPIC_CONFIG", "KVConfigTable"]

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"


class KVConfigTable:
    """Namespaces of texts. ``path`` empty: they live as long as the name server."""

    def __init__(self, path: str) -> None:
        self._file = ConfigFile(path or None)
        self._table: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """Raises StoreCorrupt when the file and its spare copy are both unreadable."""
        content = self._file.load(KVConfig.decode)
        if content is not None:
            self._table = content.config_table

    def put(self, namespace: str, key: str, value: str) -> None:
        """Raises StoreNotWritable; the text counts until the name server ends."""
        self._table.setdefault(namespace, {})[key] = value
        self._save()

    def delete(self, namespace: str, key: str) -> None:
        """A key that is not there is no mistake. Raises as :meth:`put`."""
        self._table.get(namespace, {}).pop(key, None)
        self._save()

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All texts of a namespace; None for one that nobody ever wrote to."""
        return self._table.get(namespace)

    def _save(self) -> None:
        self._file.save(KVConfig(config_table=self._table).encode())
