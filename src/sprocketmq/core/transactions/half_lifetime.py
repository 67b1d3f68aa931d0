# SPDX-License-Identifier: Apache-2.0
"""How long a broker keeps a half message that nobody ended, by its settings, and how old one may be to be decided.

Java: TransactionalMessageServiceImpl.check, needDiscard; BrokerConfig.

    sent                  transactionTimeOut      + 1 interval     + 2 intervals              + transactionCheckMax intervals
    |--- nobody is asked ---------|-- question 1 ------|-- question 2 ------ ... -- the last one ------|-- TRANS_CHECK_MAX_TIME_TOPIC
    |--- may be decided ----------------------------------------------------- decide_within_ms --|-- kept for what goes wrong --|

CHECK_IMMUNITY_TIME_IN_SECONDS does not help: Apache counts a round in which it puts such a half back like a question (needDiscard raises
TRANSACTION_CHECK_TIMES before the immunity is looked at), so the half is given up as early, with a copy for each round.

Rules
1. A half that is no older than ``decide_within_ms`` has been asked about so seldom that at least one question is left to it, and
   ``_KEPT_QUESTIONS`` where the broker asks that often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# What a decision needs when its halves cannot be ended at once: one question, and one each for an answer that got lost, or is not known.
_KEPT_QUESTIONS: Final = 3
# Clocks of executors, driver and brokers, as for can_end_directly.
_MARGIN_MS: Final = 500
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class HalfLifetime:
    """A broker's settings ``transactionTimeOut``, ``transactionCheckMax``, ``transactionCheckInterval`` and ``fileReservedTime`` (after
    which a half is given up without a question); the defaults are those of Apache 5.x. ``is_reported``: the broker's answer had any of
    them."""

    timeout_ms: int = 6_000
    check_max: int = 15
    interval_ms: int = 30_000
    reserved_ms: int = 72 * _HOUR_MS
    is_reported: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> HalfLifetime:
        """From the lines of GET_BROKER_CONFIG."""
        default = cls()
        hours = _number(settings, "fileReservedTime")
        return cls(
            _number(settings, "transactionTimeOut", default.timeout_ms),
            _number(settings, "transactionCheckMax", default.check_max),
            _number(settings, "transactionCheckInterval", default.interval_ms),
            default.reserved_ms if hours < 0 else hours * _HOUR_MS,
            bool(settings),
        )

    @property
    def decide_within_ms(self) -> int:
        """How old the oldest half of a batch may be when the batch is decided."""
        questions = max(1, self.check_max)  # the first one is asked whatever the number (needDiscard)
        kept = min(_KEPT_QUESTIONS, questions)
        asked_ms = self.timeout_ms + (questions - kept) * self.interval_ms
        return max(0, min(asked_ms, self.reserved_ms - kept * self.interval_ms) - _MARGIN_MS)

    @property
    def given_up_within_ms(self) -> int:
        """How old a half is at most when its broker asks about it for the last time, or gives it up."""
        return self.timeout_ms + (max(1, self.check_max) + 1) * self.interval_ms + _MARGIN_MS

    def __str__(self) -> str:
        settings = (
            f"transactionTimeOut={self.timeout_ms}, transactionCheckMax={self.check_max}, "
            f"transactionCheckInterval={self.interval_ms}"
        )
        if self.is_reported:
            return settings
        return (
            f"{settings}, Apache's defaults: this account may not read the broker's settings; allow it GET_BROKER_CONFIG "
            "(Get on the cluster)"
        )


def _number(settings: Mapping[str, str], name: str, default: int = -1) -> int:
    text = settings.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() else default
