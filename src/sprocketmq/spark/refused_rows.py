"""Rows that cannot be messages, and what ``onError`` makes of them: a failed write, nothing but a count, or dead letters.

    row --outgoing_rows--> message
             | no body, no topic, too long, a value that RocketMQ does not take
             v
          RefusedRows --fail--> the write fails with the sentence      drop--> counted      dlq--> %DLQ%group, with the reason

A dead letter of the sink is one like any other: ``deadLettersOf`` reads it with its topic and reason, ``mode=replay`` sends it there when
it is mended. RocketMQ stores no empty body, so a row without one leaves a blank; a body that is too long is cut.

Law: what a row is refused for is in the row; a broker that does not answer, or refuses all, fails the write whatever ``onError`` says.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final

from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.spark.cluster import Cluster
from sprocketmq.spark.hand_back import DEAD_LETTER_LEVEL, BadRow
from sprocketmq.spark.row_messages import LEFT_OUT
from sprocketmq.spark.sent_back import SendBack
from sprocketmq.spark.sink_options import SinkOptions
from sprocketmq.wire import properties as props

__all__ = ["RefusedRows"]

log = logging.getLogger("sprocketmq.spark")

# Of a letter's properties: more would leave no room for the reason.
_MOST_PROPERTIES_BYTES: Final = 16_384
_NO_BODY: Final = b" "


class RefusedRows:
    """The refused rows of one task; called with each, ``settle`` is called when the rows of a batch are sent."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._letters: list[BadRow] = []
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
        """All dead letters are stored when this returns. Raises as ``send_copies``."""
        if not self._letters:
            return
        from sprocketmq.spark.retry_copies import send_copies

        options = self._options
        letters, self._letters = self._letters, []
        send_copies(
            letters,
            options.group,
            options.namesrv_addr,
            retry_timeout_ms=options.retry_timeout_ms,
            access=options.access,
        )

    def _letter(self, row: Mapping[str, Any], reason: str) -> BadRow:
        topic, body = self._options.topic or row["topic"] or "", row["body"]
        unique_key = uuid.uuid4().hex.upper()
        content = {
            "topic": topic,
            "body": (body.encode() if isinstance(body, str) else body or b"")[: self._options.max_message_bytes]
            or _NO_BODY,
            "properties": {**_properties_of(row), props.UNIQ_KEY: unique_key},
            "reconsumeTimes": 0,
        }
        home = SendBack(self._home(), 0, message_id=unique_key, delay_level=DEAD_LETTER_LEVEL)
        return BadRow(home, reason, content)

    def _home(self) -> str:
        """A broker for the letters; any will do, as their topic is made where the first one comes."""
        options = self._options
        cluster = Cluster.at(options.namesrv_addr, options.retry_timeout_ms, options.access)
        brokers = sorted(cluster.run(cluster.api.cluster_info).broker_addr_table)
        if not brokers:
            raise NetworkError(f"no broker is registered with {options.namesrv_addr} now; is one running?")
        return brokers[0]


def _properties_of(row: Mapping[str, Any]) -> dict[str, str]:
    """What of the row a message may hold."""
    keys = row["keys"]
    texts = {name: text for name, text in row["properties"] or () if name not in LEFT_OUT}
    texts = {props.KEYS: " ".join(keys) if isinstance(keys, list) else keys, props.TAGS: row["tags"], **texts}
    kept: dict[str, str] = {}
    left_bytes = _MOST_PROPERTIES_BYTES
    for name, text in texts.items():
        size_bytes = len(name.encode()) + len((text or "").encode("utf-8", "replace")) + 2
        if text and text.isprintable() and name.isprintable() and size_bytes <= left_bytes:
            kept[name] = text
            left_bytes -= size_bytes
    return kept
