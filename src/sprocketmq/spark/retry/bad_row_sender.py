# SPDX-License-Identifier: Apache-2.0
"""Sends bad rows back: which by request, which as a copy, and each message once.

A row without reason by CONSUMER_SEND_MSG_BACK (36): the broker copies its record, which is cheap; if that is gone, as a copy of the row's
own body and properties. A row with reason as such a copy, with property RETRY_REASON; if it lacks what a copy needs, or the copy is
refused, by request, without the reason. A message is sent back once for a batch, however many of its rows are bad: the first row decides. A
copy that is stored but not on the disk or at a slave yet counts, and WARNING names it: each further one would come again, too. Only a dead
letter, which does not come again, is made twice.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sprocketmq.client.results import SendStatus
from sprocketmq.core.retry.retry_schedule import DEFAULT_DELAY_LEVELS, retry_level
from sprocketmq.errors import RemoteError, RocketMQError
from sprocketmq.spark.retry.bad_rows import BadRow, Place
from sprocketmq.spark.retry.send_back import RetryGroup, send_back_to, warn_unsafe
from sprocketmq.spark.troubles import troubles

if TYPE_CHECKING:
    from sprocketmq.spark.retry.retry_copies import UnsafeCopy

log = logging.getLogger("sprocketmq.spark")

_SHOWN: Final = 5


class BadRowSender:
    """Sends back rows to ``group``, for one batch, in any number of calls. ``retried`` and ``dead_lettered`` count the messages."""

    def __init__(self, group: RetryGroup) -> None:
        self._group = group
        self._done: set[Place] = set()
        self.retried = self.dead_lettered = 0
        self._dead: list[BadRow] = []  # the first of them
        self._again: Counter[tuple[int, int]] = Counter()  # by the number of the failed try and the level

    def first_of_each_message(self, rows: Iterable[BadRow]) -> Iterator[BadRow]:
        for row in rows:
            if row.place not in self._done:
                self._done.add(row.place)
                self._count(row)
                yield row

    def _count(self, row: BadRow) -> None:
        if row.message.delay_level >= 0:
            self.retried += 1
            self._again[row.reconsume_times + 1, retry_level(row.reconsume_times, row.message.delay_level)] += 1
            return
        self.dead_lettered += 1
        if len(self._dead) < _SHOWN:
            self._dead.append(replace(row, content=None))

    def warn_if_nobody_reads_retries(self, topics: Iterable[str], what: str) -> None:
        """Log a warning if no member of the group is online: for a sink, which does not see the source of its query."""
        cluster = self._group.cluster
        try:
            members = cluster.engine.run(cluster.members_of(self._group.name, sorted(topics)))
        except RocketMQError:
            return
        if not members:
            troubles.failed(
                "nobody",
                "%s sends rows back to group %s, of which no member is online, so nobody reads them again; give the query's source the "
                "options group and includeRetry=true",
                *(what, self._group.name),
            )

    def send_back(self, rows: Iterable[BadRow]) -> list[tuple[BadRow, RemoteError]]:
        """Send ``rows`` back; all are stored when this returns. Returns the rows whose stored records are gone and that lack the
        content of a copy, with the broker's answer. Raises NetworkError, RequestTimeout, SystemBusy (some rows may be stored)."""
        rows = list(rows)
        asked = {row.message: row for row in rows if not row.is_copied}
        if lacking := [row for row in asked.values() if row.reason]:
            troubles.failed(
                "reasons",
                "group %s: %d rows with a reason have no body, topic, properties or reconsumeTimes for a copy, the first is %s; the broker "
                "copies their messages, without the reason",
                *(self._group.name, len(lacking), lacking[0].message),
            )
        for row, problem in self._send_copies(row for row in rows if row.is_copied):
            if isinstance(problem, SendStatus) and row.message.delay_level >= 0:
                warn_unsafe(self._group.name, row.message, problem.name)
                continue
            troubles.failed(
                "copies",
                "group %s: the copy of %s with its reason is not stored safely, so the broker makes it without: %s",
                *(self._group.name, row.message.message_id, problem),
            )
            asked[row.message] = replace(row, reason="")
        copied, left = [], []
        for message, error in send_back_to(self._group, asked) if asked else ():
            if asked[message].content is None:
                left.append((asked[message], error))
            else:
                copied.append(asked[message])
        self.send_copies(copied)
        return left

    def send_copies(self, rows: Iterable[BadRow]) -> None:
        """Send rows that have content as copies. Raises RemoteError, ConfigurationError (a copy is refused)."""
        for row, problem in self._send_copies(rows):
            if isinstance(problem, Exception):
                raise problem
            warn_unsafe(self._group.name, row.message, problem.name)

    def _send_copies(self, rows: Iterable[BadRow]) -> list[UnsafeCopy]:
        from sprocketmq.spark.retry.retry_copies import send_copies

        return send_copies(rows, self._group)

    def log_result(self, what: str, dropped: int = 0) -> None:
        """Log what became of the rows: one WARNING if there are new dead letters, and INFO about those that come again."""
        group, tries = self._group.name, self._group.max_reconsume + 1
        if self.dead_lettered:
            named = ", ".join(_named(row, tries) for row in self._dead)
            more = f" and {self.dead_lettered - len(self._dead)} more" if self.dead_lettered > len(self._dead) else ""
            sentence = "%s of group %s: %d rows became dead letters: %s%s"
            troubles.failed("dead letters", sentence, what, group, self.dead_lettered, named, more, of=what)
        levels = DEFAULT_DELAY_LEVELS.split()
        again = [
            f"{count} again at delay level {level} ({levels[min(level, len(levels)) - 1]} by default, try {number} of {tries})"
            for (number, level), count in sorted(self._again.items())
        ]
        log.info("%s of group %s: %s, %d rows dropped", what, group, ", ".join(again) or "no row comes again", dropped)


def _named(row: BadRow, tries: int) -> str:
    keys = f"keys {row.keys}, " if row.keys else ""
    because = f": {row.reason}" if row.reason else ""
    return f"{row.message.message_id or row.message} ({keys}try {row.reconsume_times + 1} of {tries}{because})"
