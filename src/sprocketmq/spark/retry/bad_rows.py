# SPDX-License-Identifier: Apache-2.0
"""Rows that are retried or given up: the request to send each back, with its delay, and the content of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.core.resource_names import NAME_PATTERN
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.columns.cells import cells, rows
from sprocketmq.spark.options.source_columns import COPY_COLUMNS
from sprocketmq.spark.retry.send_back import SendBackRequest
from sprocketmq.spark.retry.verdict_columns import action_of, check_delay_level
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    import pyarrow as pa

    from sprocketmq.spark.options.sink_options import SinkOptions

# AbstractSendMessageProcessor: a negative level goes straight to the dead-letter topic.
DEAD_LETTER_LEVEL: Final = -1

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row to be retried or given up. ``content`` has the columns that a copy needs; None if the row lacks them."""

    message: SendBackRequest
    reason: str = ""
    content: Mapping[str, Any] | None = None
    keys: str = ""
    reconsume_times: int = 0

    @property
    def is_copied(self) -> bool:
        """Whether it is sent as a whole, with its reason."""
        return bool(self.reason) and self.content is not None

    @property
    def place(self) -> Place:
        return self.message.broker_name, self.message.commit_log_offset


def bad_row(row: Mapping[str, Any], action: str, *, delay_level: int, max_reconsume: int) -> BadRow:
    """The request for ``row`` with the action retry or dlq. ``delay_level``: for rows without one of their own; 0 lets the broker
    choose. After ``max_reconsume`` tries a retry becomes a dead letter. Raises ConfigurationError (the row does not say where its
    message is, or the level does not exist)."""
    for name in ("brokerName", "commitLogOffset"):
        if row[name] is None:
            raise ConfigurationError(
                f"a bad row has no {name}, which says where its message is; keep it as the source made it"
            )
    if row["commitLogOffset"] < 0:
        raise ConfigurationError(
            f"commitLogOffset of a bad row is {row['commitLogOffset']}; keep it as the source made it"
        )
    given_up = action == "dlq" or (row.get("reconsumeTimes") or 0) >= max_reconsume
    level = row.get("delayLevel")
    topic = _topic(row.get("topic"))
    message = SendBackRequest(
        row["brokerName"],
        row["commitLogOffset"],
        topic=topic,
        message_id=row.get("messageId") or "",
        delay_level=DEAD_LETTER_LEVEL if given_up else delay_level if level is None else check_delay_level(level),
    )
    whole = topic and row.get("body") is not None and all(row.get(name) is not None for name in COPY_COLUMNS)
    reason = row.get("reason") or ""
    keys = row.get("keys") or ""
    if not keys and (properties := row.get("properties")):
        keys = dict(properties).get(props.KEYS, "")
    return BadRow(message, reason, row if whole else None, keys, row.get("reconsumeTimes") or 0)


@lru_cache(maxsize=1024)
def _topic(name: str | None) -> str:
    """As a broker could have it, or empty."""
    return name if name and NAME_PATTERN.fullmatch(name) else ""


def bad_rows(batch: pa.RecordBatch, options: SinkOptions) -> Iterator[BadRow]:
    """The rows whose action is retry or dlq, of a batch with columns ``row_messages.ACK_COLUMNS``. Raises as ``bad_row``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from sprocketmq.spark.send.row_messages import ACK_COLUMNS

    actions = batch.column("action")
    bad = [value for value in cells(pc.unique(actions), "replace") if action_of(value, "ack") in ("retry", "dlq")]
    if not bad:
        return
    names = [name for name in batch.schema.names if name in ACK_COLUMNS]
    kept = batch.select(names).filter(pc.is_in(actions, value_set=pa.array(bad, actions.type)))
    for row in rows(kept, "replace"):
        yield bad_row(
            row,
            action_of(row["action"], "ack"),
            delay_level=options.delay_level,
            max_reconsume=options.max_reconsume_times,
        )
