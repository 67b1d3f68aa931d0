# SPDX-License-Identifier: Apache-2.0
"""Which topics of a consumer may get more brokers soon, so that their routes are read again 1, 2, 4, 8, ... s after the first one.

The first sends of a producer create a topic at one broker after the other. A consumer that asks in between learns of the first brokers,
and the next reading of all routes is half a minute away. (Java's consumer waits for it: MQClientInstance.startScheduledTask.)

Rules
    1. A topic is young from its first route until the routes of all topics have been read again.
    2. At most ``_AT_ONCE`` topics a second, those at the fewest brokers first: a consumer that starts with 2,000 topics has just read
       2,000 routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

_AT_ONCE: Final = 32


class YoungTopics:
    """``until_s``: the age in seconds from which a topic is not young any more."""

    __slots__ = ("_ages_s", "_seen", "_until_s")

    def __init__(self, until_s: int) -> None:
        self._until_s = until_s
        self._seen: set[str] = set()
        self._ages_s: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._ages_s)

    def saw(self, topics: Iterable[str]) -> None:
        """These topics have a route."""
        new = set(topics) - self._seen
        self._seen |= new
        if self._until_s > 1:
            self._ages_s.update(dict.fromkeys(new, 0))

    def second_passed(self, brokers_of: Callable[[str], int]) -> list[str]:
        """The topics whose routes are to be read now. ``brokers_of``: how many brokers a topic's route names."""
        self._ages_s = {topic: age_s + 1 for topic, age_s in self._ages_s.items()}
        due = [topic for topic, age_s in self._ages_s.items() if age_s.bit_count() == 1]
        self._ages_s = {topic: age_s for topic, age_s in self._ages_s.items() if age_s + 1 < self._until_s}
        return sorted(due, key=lambda topic: (brokers_of(topic), topic))[:_AT_ONCE]
