# SPDX-License-Identifier: Apache-2.0
"""What has to become of each row of a long stream, and what became of it.

The fate of a row is written in its number: a hash of (seed, number, tries) says what the pipeline does with it at each try. The pipeline
calculates that in Spark's SQL, this file in Python, so the two agree only if number and tries came through unharmed.

    number, try 0 --> ack ----------------------------------------------------> the sink, with tries 0
                  |-> dlq ----------------------------------------------------> dead letters
                  `-> retry (level by the row, or by the broker) --> try 1 --> ... try MAX_RECONSUME: retry means dead letter

Laws
1. Each number that was sent is once in the sink or once among the dead letters, as its fate says, never in both.
2. In the sink it says the number of tries of its fate; a dead letter has that number plus one as its reconsume times, and the reason of the
   last try that had one.
3. The retries of all rows are, in sum, the messages of the retry topic and what the pipeline counted.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

MAX_RECONSUME: Final = 3
# Of a thousand rows: (dead letters, retries) at the first try, and at each later one. Half of what fails fails again.
_FIRST: Final = (10, 80)
_LATER: Final = (60, 400)
# A level for three of four retries, a reason for one of three; the rest is left to the broker.
_LEVELS: Final = 4
_REASONS: Final = 3

Action = Literal["ack", "retry", "dlq"]


class Verdict(NamedTuple):
    """Of one try. ``level`` 0: the broker's choice."""

    action: Action
    level: int
    reason: str


class Fate(NamedTuple):
    """``tries`` that failed before the end, and the ``reason`` that the dead letter has."""

    dead: bool
    tries: int
    reason: str


def verdict_of(seed: int, number: int, tries: int) -> Verdict:
    roll = zlib.crc32(f"{seed}:{number}:{tries}".encode()) % 1000
    dead, retry = _LATER if tries else _FIRST
    action: Action = "dlq" if roll < dead else "retry" if roll < dead + retry else "ack"
    return Verdict(action, roll % _LEVELS, f"roll {roll} at try {tries}" if roll % _REASONS == 0 else "")


def verdict_columns(seed: int) -> tuple[str, ...]:
    """``verdict_of`` in Spark's SQL, of a row whose ``keys`` are its number: the expressions that the judge adds."""
    roll = f"cast(crc32(cast(concat('{seed}:', keys, ':', reconsumeTimes) AS binary)) % 1000 AS int)"

    def action(rates: tuple[int, int]) -> str:
        return f"CASE WHEN {roll} < {rates[0]} THEN 'dlq' WHEN {roll} < {sum(rates)} THEN 'retry' ELSE 'ack' END"

    return (
        f"IF(reconsumeTimes = 0, {action(_FIRST)}, {action(_LATER)}) AS action",
        f"IF({roll} % {_LEVELS} = 0, null, {roll} % {_LEVELS}) AS delayLevel",
        f"IF({roll} % {_REASONS} = 0, concat('roll ', {roll}, ' at try ', reconsumeTimes), null) AS reason",
    )


def fate_of(seed: int, number: int) -> Fate:
    tries, reason = 0, ""
    while True:
        verdict = verdict_of(seed, number, tries)
        if verdict.action == "ack":
            return Fate(False, tries, "")
        reason = verdict.reason or reason
        if verdict.action == "dlq" or tries == MAX_RECONSUME:
            return Fate(True, tries, reason)
        tries += 1


@dataclass
class SoakLedger:
    """Numbers from 0 to ``sent``, each with one bit of what is known; a million of them take a megabyte.

    Not for several threads at once but for ``sent``, which the sender alone moves.
    """

    seed: int
    sent: int = 0
    acked: int = 0
    dead: int = 0
    retries: int = 0  # of the rows that are at their end
    broken: list[str] = field(default_factory=list)
    _ended: bytearray = field(default_factory=bytearray, repr=False)

    @property
    def under_way(self) -> int:
        return self.sent - self.acked - self.dead

    def at_sink(self, number: int, tries: int) -> None:
        fate = self._end(number, "the sink")
        self.acked += 1
        if fate.dead or fate.tries != tries:
            self._wrong(f"{number} is in the sink after {tries} retries, its fate is {fate}")

    def dead_letter(self, number: int, reconsume_times: int, reason: str) -> None:
        fate = self._end(number, "the dead letters")
        self.dead += 1
        if not fate.dead or fate.tries + 1 != reconsume_times or fate.reason != reason:
            self._wrong(
                f"{number} is a dead letter with reconsume times {reconsume_times}, {reason!r}; its fate is {fate}"
            )

    def _end(self, number: int, where: str) -> Fate:
        if len(self._ended) <= number:
            self._ended.extend(bytes(number + 1 - len(self._ended)))
        if self._ended[number]:
            self._wrong(f"{number} comes to its end twice, now in {where}")
        self._ended[number] = 1
        fate = fate_of(self.seed, number)
        self.retries += fate.tries
        return fate

    def _wrong(self, what: str) -> None:
        if len(self.broken) < 50:
            self.broken.append(what)

    def verdict(self, retry_messages: int, retried: int, dead_lettered: int) -> list[str]:
        """Everything that is not as it has to be once nothing moves any more; empty when all is well.

        Args:
            retry_messages: how many the retry topic ever held.
            retried, dead_lettered: as the pipeline counted them.
        """
        broken = list(self.broken)
        missing = [number for number in range(self.sent) if number >= len(self._ended) or not self._ended[number]]
        if missing:
            broken.append(f"{len(missing)} of {self.sent} rows came to no end, the first are {missing[:5]}")
        for what, found, expected in (
            ("messages in the retry topic", retry_messages, self.retries),
            ("retries counted by the pipeline", retried, self.retries),
            ("dead letters counted by the pipeline", dead_lettered, self.dead),
        ):
            if found != expected:
                broken.append(f"{found} {what}, {expected} by the fates of the rows")
        return broken
