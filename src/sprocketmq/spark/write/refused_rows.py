"""Rows that cannot be messages, and what ``onError`` makes of them: a failed write, nothing but a count, or dead letters.

    row --outgoing_rows--> message
             | no body, no topic or one that cannot be, too long, a value that RocketMQ does not take
             v
          RefusedRows --fail--> the write fails with the sentence      drop--> counted      dlq--> %DLQ%group, with the reason

A dead letter of the sink is one like any other: ``deadLettersOf`` reads it with its topic and reason, ``mode=replay`` sends it there when
it is mended. RocketMQ stores no empty body, so a row without one leaves a blank; a body that is too long is cut.

Laws
1. What a row is refused for is in the row; a broker that does not answer, or refuses all, fails the write whatever ``onError`` says. So
   does a queue that no broker has now: its broker may be away.
2. A write that runs again gives its letters the ids they had, where its rows have marks (``write_marks``).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.retry.bad_rows import DEAD_LETTER_LEVEL, BadRow
from sprocketmq.spark.retry.sent_back import SendBack
from sprocketmq.spark.send.row_messages import LEFT_OUT
from sprocketmq.spark.send.write_marks import Stamp
from sprocketmq.spark.transactions.ledger_place import masters_of
from sprocketmq.wire.records import properties as props

__all__ = ["RefusedRows"]

log = logging.getLogger("sprocketmq.spark")

# Of a letter's properties: more would leave no room for the reason.
_MOST_PROPERTIES_BYTES: Final = 16_384
_NO_BODY: Final = b" "
# Longer than any topic may be: of one that is too long so much is kept that it is still none.
_TOPIC_CHARACTERS: Final = 255


class RefusedRows:
    """The refused rows of one task; called with each, ``settle`` is called when the rows of a batch are sent.

    Args:
        options: of the sink.
        stamp: what the rows of this task are marked with, if they are.
    """

    def __init__(self, options: SinkOptions, stamp: Stamp | None = None) -> None:
        self._options, self._stamp = options, stamp
        self._letters: list[_Letter] = []
        self._homes: list[str] = []
        self.count = 0

    def __call__(self, row: Mapping[str, Any], error: ConfigurationError) -> None:
        """Raises ``error`` itself with ``onError=fail``."""
        if self._options.on_error == "fail":
            raise error
        if not self.count:
            log.warning("a row is not sent (onError=%s): %s", self._options.on_error, error)
        self.count += 1
        if self._options.on_error == "dlq":
            self._letters.append(self._letter(row, str(error)))

    def settle(self) -> None:
        """All dead letters are stored when this returns, some of them twice if a broker fell silent. Raises as ``send_copies``."""
        if not self._letters:
            return
        letters, self._letters = self._letters, []
        homes = self._homes = self._homes or self._masters()
        for at, home in enumerate(homes):
            try:
                self._store(letters, home, self._options.retry_timeout_ms // len(homes))
            except (NetworkError, RequestTimeout, RemoteError) as error:
                if home == homes[-1]:
                    raise
                log.warning(
                    "broker %s does not take %d dead letters, another one is asked: %s", home, len(letters), error
                )
            else:
                self._homes = [*homes[at:], *homes[:at]]
                return

    def _store(self, letters: list[_Letter], home: str, timeout_ms: int) -> None:
        from sprocketmq.spark.retry.retry_copies import send_copies

        options = self._options
        rows = [
            BadRow(
                SendBack(home, 0, message_id=letter.unique_key, delay_level=DEAD_LETTER_LEVEL),
                letter.reason,
                letter.content,
            )
            for letter in letters
        ]
        send_copies(rows, options.group, options.namesrv_addr, retry_timeout_ms=timeout_ms, access=options.access)

    def _letter(self, row: Mapping[str, Any], reason: str) -> _Letter:
        topic, body = self._options.topic or row["topic"] or "", row["body"]
        unique_key = self._unique_key(f"{topic} {body!r}")
        content = {
            "topic": _as_text(topic),
            "body": (body.encode() if isinstance(body, str) else body or b"")[: self._options.max_message_bytes]
            or _NO_BODY,
            "properties": {**_properties_of(row), props.UNIQ_KEY: unique_key},
            "reconsumeTimes": 0,
        }
        return _Letter(unique_key, reason, content)

    def _unique_key(self, row: str) -> str:
        if self._stamp is None:
            return uuid.uuid4().hex.upper()
        mark = "/".join(map(str, (*self._stamp, self.count, row)))
        return uuid.uuid5(uuid.NAMESPACE_OID, mark).hex.upper()

    def _masters(self) -> list[str]:
        """The brokers for the letters; any will do, as their topic is made where the first one comes."""
        options = self._options
        cluster = Cluster.at(options.namesrv_addr, options.retry_timeout_ms, options.access)
        names = sorted(cluster.run(lambda: masters_of(cluster.api)))
        if not names:
            raise NetworkError(f"no master is registered with {options.namesrv_addr} now; is a broker running?")
        return names


@dataclass(frozen=True, slots=True)
class _Letter:
    unique_key: str
    reason: str
    content: Mapping[str, Any]


def _as_text(topic: str) -> str:
    """The name of a topic, one that cannot be among them, as a property may hold it; what cannot be stays so, lest it be replayed
    elsewhere."""
    return "".join(letter if letter.isprintable() else "?" for letter in topic)[:_TOPIC_CHARACTERS]


def _properties_of(row: Mapping[str, Any]) -> dict[str, str]:
    """What of the row a message may hold."""
    keys = row["keys"]
    texts = {name: text for name, text in row["properties"] or () if name not in LEFT_OUT}
    texts = {
        props.KEYS: " ".join(filter(None, keys)) if isinstance(keys, list) else keys,
        props.TAGS: row["tags"],
        **texts,
    }
    kept: dict[str, str] = {}
    left_bytes = _MOST_PROPERTIES_BYTES
    for name, text in texts.items():
        size_bytes = len(name.encode()) + len((text or "").encode("utf-8", "replace")) + 2
        if text and text.isprintable() and name.isprintable() and size_bytes <= left_bytes:
            kept[name] = text
            left_bytes -= size_bytes
    return kept
