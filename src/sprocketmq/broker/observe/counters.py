# SPDX-License-Identifier: Apache-2.0
"""Totals per topic and group, and rates over the last 10 s, 1 min and 10 min (Java: StoreStatsService)."""

from __future__ import annotations

from collections import deque
from typing import Final

_SPANS_MS: Final = (10_000, 60_000, 600_000)


class Rate:
    """Events per second, from samples of a running total; ``sample`` is called every few seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()

    def sample(self, total: int, now_ms: int) -> None:
        self._samples.append((now_ms, total))
        while self._samples[0][0] < now_ms - _SPANS_MS[-1]:
            self._samples.popleft()

    def per_second(self, span_ms: int, now_ms: int) -> float:
        """The rate since the last sample before ``span_ms`` ago, or the oldest one; 0.0 while there are fewer than two."""
        samples = list(self._samples)
        before = sum(sample[0] <= now_ms - span_ms for sample in samples)
        inside = samples[max(0, before - 1) :]
        if len(inside) < 2 or inside[-1][0] == inside[0][0]:
            return 0.0
        (first_ms, first), (last_ms, last) = inside[0], inside[-1]
        return (last - first) * 1000 / (last_ms - first_ms)

    def text(self, now_ms: int) -> str:
        """The three rates as mqadmin expects them, separated by blanks."""
        return " ".join(f"{self.per_second(span_ms, now_ms):.2f}" for span_ms in _SPANS_MS)


class Tally:
    """Counts of one topic's stored messages, or of a group's pulled messages of a topic: messages, bytes of their records, and requests."""

    __slots__ = ("bytes", "messages", "requests")

    def __init__(self) -> None:
        self.messages = self.bytes = self.requests = 0


class Counters:
    """``put`` and ``pulled`` count messages since the start; the tables have a tally per topic, and per (topic, group): at most
    ``max_tallies``, because any client may pull as any group."""

    __slots__ = ("gets", "max_tallies", "pulled", "pulled_tps", "put", "put_tps", "puts", "send_backs")

    def __init__(self, max_tallies: int = 100_000) -> None:
        self.max_tallies = max_tallies
        self.put = 0
        self.pulled = 0
        self.puts: dict[str, Tally] = {}
        self.gets: dict[tuple[str, str], Tally] = {}
        self.send_backs: dict[tuple[str, str], Tally] = {}
        self.put_tps = Rate()
        self.pulled_tps = Rate()

    def stored(self, topic: str, messages: int, size_bytes: int) -> None:
        self.put += messages
        tally = self.puts.get(topic)
        if tally is None:
            tally = self.puts[topic] = Tally()
        tally.messages += messages
        tally.bytes += size_bytes
        tally.requests += 1

    def pulled_by(self, topic: str, group: str, messages: int, size_bytes: int) -> None:
        self.pulled += messages
        tally = self.gets.get((topic, group))
        if tally is None:
            if len(self.gets) >= self.max_tallies:
                return
            tally = self.gets[topic, group] = Tally()
        tally.messages += messages
        tally.bytes += size_bytes
        tally.requests += 1

    def sent_back(self, topic: str, group: str) -> None:
        if len(self.send_backs) >= self.max_tallies and (topic, group) not in self.send_backs:
            return
        tally = self.send_backs.setdefault((topic, group), Tally())
        tally.messages += 1
        tally.requests += 1

    def forget_topic(self, topic: str) -> None:
        """Remove the counters of a deleted topic; the totals stay."""
        self.puts.pop(topic, None)
        for table in (self.gets, self.send_backs):
            for key in [key for key in table if key[0] == topic]:
                del table[key]

    def forget_group(self, group: str) -> None:
        for table in (self.gets, self.send_backs):
            for key in [key for key in table if key[1] == group]:
                del table[key]

    def sample(self, now_ms: int) -> None:
        self.put_tps.sample(self.put, now_ms)
        self.pulled_tps.sample(self.pulled, now_ms)
