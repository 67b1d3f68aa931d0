# SPDX-License-Identifier: Apache-2.0
"""Rows that cannot be messages, and what ``onError`` does with them: fail the write, count them, or make dead letters (%DLQ%group, with the
reason).

RocketMQ stores no empty body, so a row without one becomes a blank; a body that is too long is cut. Only the content of a row makes it a
refused row: if a broker does not answer, or refuses everything, the write fails, whatever ``onError`` says. A write that runs again gives
its dead letters the same ids, if its rows have ids (``row_ids``).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sprocketmq.core.resource_names import control_character_problem
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.columns.cells import readable
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.retry.bad_rows import DEAD_LETTER_LEVEL, BadRow
from sprocketmq.spark.retry.send_back import RetryGroup, SendBackRequest, warn_unsafe
from sprocketmq.spark.send.row_ids import TaskId
from sprocketmq.spark.send.row_messages import LEFT_OUT
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire.records import properties as props

# The limit for the properties of a dead letter, so that there is room for the reason.
_MOST_PROPERTIES_BYTES: Final = 16_384
_NO_BODY: Final = b" "
# Longer than any valid topic, so that a name that is too long stays invalid when it is cut.
_TOPIC_CHARACTERS: Final = 255


class RefusedRows:
    """The refused rows of one task. Called with each row; ``send_dead_letters`` is called when the rows of a batch are sent."""

    def __init__(self, options: SinkOptions, task_id: TaskId | None = None) -> None:
        self._options, self._task_id = options, task_id
        self._letters: list[_DeadLetter] = []
        self._brokers: list[str] = []
        self.count = 0

    def __call__(self, row: Mapping[str, Any], error: ConfigurationError) -> None:
        if self._options.on_error == "fail":
            raise error
        if not self.count:
            troubles.failed("rows", "a row is not sent (onError=%s): %s", self._options.on_error, error)
        self.count += 1
        if self._options.on_error == "dlq":
            self._letters.append(self._letter(row, str(error)))

    def send_dead_letters(self) -> None:
        """Send the dead letters; all are stored when this returns, some twice if a broker did not answer. Raises as ``send_copies``."""
        if not self._letters:
            return
        letters, self._letters = self._letters, []
        brokers = self._brokers = self._brokers or self._masters()
        for at, broker in enumerate(brokers):
            try:
                self._store(letters, broker, self._options.retry_timeout_ms // len(brokers))
            except (NetworkError, RequestTimeout, RemoteError) as error:
                if broker == brokers[-1]:
                    raise
                sentence = "broker %s does not accept %d dead letters, another broker is tried: %s"
                troubles.failed(("dead letters", broker), sentence, broker, len(letters), error)
            else:
                self._brokers = [*brokers[at:], *brokers[:at]]
                return

    def _store(self, letters: list[_DeadLetter], broker: str, timeout_ms: int) -> None:
        from sprocketmq.spark.retry.retry_copies import send_copies

        options = self._options
        rows = [
            BadRow(
                SendBackRequest(broker, 0, message_id=letter.unique_key, delay_level=DEAD_LETTER_LEVEL),
                letter.reason,
                letter.content,
            )
            for letter in letters
        ]
        group = RetryGroup(options.group, options.namesrv_addr, options.access, retry_timeout_ms=timeout_ms)
        for row, problem in send_copies(rows, group):
            if isinstance(problem, Exception):
                raise problem
            warn_unsafe(group.name, row.message, problem.name)

    def _letter(self, row: Mapping[str, Any], reason: str) -> _DeadLetter:
        topic, body = _as_text(self._options.topic or row["topic"] or ""), row["body"]
        unique_key = self._unique_key(f"{topic} {body!r}")
        content = {
            "topic": topic,
            "body": (body or b"")[: self._options.max_message_bytes] or _NO_BODY,
            "properties": {**_properties_of(row), props.UNIQ_KEY: unique_key},
            "reconsumeTimes": 0,
        }
        return _DeadLetter(unique_key, reason, content)

    def _unique_key(self, row: str) -> str:
        if self._task_id is None:
            return uuid.uuid4().hex.upper()
        mark = "/".join(map(str, (*self._task_id, self.count, row)))
        return uuid.uuid5(uuid.NAMESPACE_OID, mark).hex.upper()

    def _masters(self) -> list[str]:
        """The brokers for the dead letters. Any broker will do: their topic is created where the first one is stored."""
        options = self._options
        cluster = Cluster.at(options.namesrv_addr, options.retry_timeout_ms, options.access)
        names = sorted(cluster.master_names([options.topic] if options.topic else ()))
        if not names:
            raise NetworkError(f"no master is registered with {options.namesrv_addr} now; is a broker running?")
        return names


@dataclass(frozen=True, slots=True)
class _DeadLetter:
    unique_key: str
    reason: str
    content: Mapping[str, Any]


def _as_text(topic: str) -> str:
    """The name of a topic as a property value. An invalid name stays invalid, so that the row is not replayed to another topic."""
    return "".join(letter if letter.isprintable() else "?" for letter in topic)[:_TOPIC_CHARACTERS]


def _properties_of(row: Mapping[str, Any]) -> dict[str, str]:
    keys = row["keys"]
    texts = {name: text for name, text in row["properties"] or () if name not in LEFT_OUT}
    texts = {
        props.KEYS: " ".join(filter(None, keys)) if isinstance(keys, list) else keys,
        props.TAGS: row["tags"],
        **texts,
    }
    sent: dict[str, str] = {}
    left_bytes = _MOST_PROPERTIES_BYTES
    for name, text in ((readable(name), readable(text or "")) for name, text in texts.items()):
        size_bytes = len(name.encode()) + len(text.encode()) + 2
        has_control = any(control_character_problem(name, one) is not None for one in (name, text))
        if name and text and not has_control and size_bytes <= left_bytes:
            sent[name] = text
            left_bytes -= size_bytes
    return sent
