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

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from sprocketmq.errors import RemoteError
from sprocketmq.spark.options.access import PLAIN, Access
from sprocketmq.spark.retry.bad_rows import BadRow, Place
from sprocketmq.spark.retry.sent_back import SendBack, send_back

__all__ = ["HandBack"]

_CHUNK: Final = 4096


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
        from sprocketmq.spark.retry.retry_copies import send_copies

        send_copies(
            rows,
            self.group,
            self.namesrv_addr,
            max_reconsume=self.max_reconsume,
            retry_timeout_ms=self.retry_timeout_ms,
            access=self.access,
        )
