"""Bad rows on their way back: what is asked of the broker, what is sent anew, and how often.

    row with action retry / dlq --bad_row--> BadRow --hand_back--+-- no reason --> CONSUMER_SEND_MSG_BACK (36): the broker copies its record
                                                                 |                     | refused: the stored copy is gone
                                                                 |                     v
                                                                 `-- reason ------> a copy made here, of the row's own body and properties
                                                                                       `--> %RETRY%group, or %DLQ%group at the last try

The broker's own copy is the cheap way: 100 bytes say which record is meant. It cannot carry anything new, so a row with a ``reason`` is
sent whole, with the reason as property RETRY_REASON; it stays on later copies until another reason replaces it, and on the dead letter.

Laws
1. A message goes back once for a batch, however many of its rows are bad (an exploded body): the first one that is met decides.
2. A copy made here is what the broker would have made, the reason apart: id, origin topic, number of tries, delay (see ``retry_copies``).
3. What can go back in neither way is returned, never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.errors import ConfigurationError, RemoteError
from sprocketmq.spark.access import PLAIN, Access
from sprocketmq.spark.sent_back import SendBack, send_back
from sprocketmq.spark.verdict_columns import action_of, check_delay_level

if TYPE_CHECKING:
    import pyarrow as pa

    from sprocketmq.spark.sink_options import SinkOptions

__all__ = ["CONTENT", "DEAD_LETTER_LEVEL", "BadRow", "HandBack", "bad_row", "bad_rows"]

# AbstractSendMessageProcessor: a negative level goes straight to the dead-letter topic.
DEAD_LETTER_LEVEL: Final = -1
# What a copy is made of.
CONTENT: Final = ("topic", "body", "properties", "reconsumeTimes")
_CHUNK: Final = 4096

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row to be consumed again, or to be given up. ``content`` holds the columns of a copy, None when the row has them not."""

    message: SendBack
    reason: str = ""
    content: Mapping[str, Any] | None = None

    @property
    def place(self) -> Place:
        return self.message.broker_name, self.message.commit_log_offset


def bad_row(row: Mapping[str, Any], action: str, *, delay_level: int, max_reconsume: int) -> BadRow:
    """What becomes of ``row`` with ``action`` retry or dlq.

    Args:
        row: columns of the source by name, as far as they were kept, and the user's ``delayLevel`` and ``reason``.
        delay_level: of rows without one of their own; 0 lets the broker choose.
        max_reconsume: at so many tries a retry is a dead letter.

    Raises:
        ConfigurationError: there is a reason, and no body to go with it, or there is no such level.
    """
    given_up = action == "dlq" or (row.get("reconsumeTimes") or 0) >= max_reconsume
    level = row.get("delayLevel")
    message = SendBack(
        row["brokerName"],
        row["commitLogOffset"],
        topic=row.get("topic") or "",
        message_id=row.get("messageId") or "",
        delay_level=DEAD_LETTER_LEVEL if given_up else delay_level if level is None else check_delay_level(level),
    )
    whole = all(row.get(name) is not None for name in CONTENT)
    reason = row.get("reason") or ""
    if reason and not whole:
        lacking = ", ".join(name for name in CONTENT if row.get(name) is None)
        raise ConfigurationError(
            f"a bad row has a reason and lacks {lacking}: a reason travels with a copy of the message; keep these columns, or leave "
            "reason out"
        )
    return BadRow(message, reason, row if whole else None)


def bad_rows(batch: pa.RecordBatch, options: SinkOptions) -> Iterator[BadRow]:
    """The rows of ``batch`` (columns of ``row_messages.ACK_COLUMNS``) whose action is retry or dlq.

    Raises:
        ConfigurationError: an action that does not exist, or a reason without what it travels with.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from sprocketmq.spark.row_messages import ACK_COLUMNS

    said = batch.column("action")
    bad = [value for value in pc.unique(said).to_pylist() if action_of(value, "ack") in ("retry", "dlq")]
    if not bad:
        return
    names = [name for name in batch.schema.names if name in ACK_COLUMNS]
    kept = batch.select(names).filter(pc.is_in(said, value_set=pa.array(bad, said.type)))
    for row in kept.to_pylist():
        yield bad_row(
            row,
            action_of(row["action"], "ack"),
            delay_level=options.delay_level,
            max_reconsume=options.max_reconsume_times,
        )


class HandBack:
    """The way back of one group's rows, for one batch. ``rows`` may be called many times; law 1 holds over all of them.

    Args:
        group: the consumer group that retries.
        max_reconsume: told to the brokers; at so many tries they make a dead letter.
        retry_timeout_ms: how long a request is tried again while its broker does not answer.
    """

    def __init__(
        self,
        group: str,
        namesrv_addr: str,
        *,
        access: Access = PLAIN,
        max_reconsume: int = 16,
        retry_timeout_ms: int = 60_000,
    ) -> None:
        self.group, self.namesrv_addr, self.access = group, namesrv_addr, access
        self.max_reconsume, self.retry_timeout_ms = max_reconsume, retry_timeout_ms
        self._done: set[Place] = set()

    def first_of_each(self, rows: Iterable[BadRow]) -> Iterator[BadRow]:
        """The rows whose messages have not gone back yet."""
        for row in rows:
            if row.place not in self._done:
                self._done.add(row.place)
                yield row

    def rows(self, rows: Iterable[BadRow]) -> list[tuple[BadRow, RemoteError]]:
        """Send ``rows`` back, all of them stored before this returns.

        Returns:
            Those whose stored copies are gone and that have no content to make another one, with the broker's answer.

        Raises:
            NetworkError, RequestTimeout, SystemBusy: a broker did not answer within ``retry_timeout_ms``; some may have gone back.
        """
        rest, left = iter(rows), []
        while chunk := list(islice(rest, _CHUNK)):
            left += self._chunk(chunk)
        return left

    def _chunk(self, rows: list[BadRow]) -> list[tuple[BadRow, RemoteError]]:
        copied = [row for row in rows if row.reason]
        asked = {row.message: row for row in rows if not row.reason}
        left = []
        if asked:
            for message, error in self._refused(asked):
                if asked[message].content is None:
                    left.append((asked[message], error))
                else:
                    copied.append(asked[message])
        if copied:
            self.send_copies(copied)
        return left

    def _refused(self, messages: Iterable[SendBack]) -> list[tuple[SendBack, RemoteError]]:
        return send_back(
            messages,
            group=self.group,
            namesrv_addr=self.namesrv_addr,
            max_reconsume=self.max_reconsume,
            retry_timeout_ms=self.retry_timeout_ms,
            access=self.access,
        )

    def send_copies(self, rows: Iterable[BadRow]) -> None:
        """Send rows with content as copies made here."""
        from sprocketmq.spark.retry_copies import send_copies

        send_copies(
            rows,
            self.group,
            self.namesrv_addr,
            max_reconsume=self.max_reconsume,
            retry_timeout_ms=self.retry_timeout_ms,
            access=self.access,
        )
