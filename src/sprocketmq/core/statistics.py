"""Rolling numbers of a consumer: response times and rates over the last minute. Java: ConsumerStatsManager, StatsItem, ConsumeStatus.

    add(value) --> slot of this 10 s --> sum over the slots of the last 60 s / span = rate per second;  sum of values / count = mean

    pull_rt, pull_tps, consume_rt, consume_ok_tps, consume_failed_tps       last minute
    consume_failed_msgs                                                    last hour

Java samples each 10 s on a timer; here slots are chosen by the time of the event, so nothing runs while nothing happens.

Laws
    1. What was added longer ago than the window (plus at most one slot) counts no more.
    2. Memory is bounded by the number of slots, whatever the rate.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from sprocketmq.wire.bodies import ConsumeStatus

__all__ = ["ConsumerStatistics", "RollingWindow", "WindowTotals"]

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class WindowTotals:
    """Sums over a window: ``count`` events with ``total`` value, over ``span_ms``."""

    count: int
    total: float
    span_ms: int

    @property
    def per_second(self) -> float:
        """Value per second."""
        return self.total * 1000 / self.span_ms if self.span_ms else 0.0

    @property
    def mean(self) -> float:
        """Value per event."""
        return self.total / self.count if self.count else 0.0


class RollingWindow:
    """Sums of the last ``window_ms``, in ``slot_ms`` steps."""

    __slots__ = ("_first_ms", "_slots", "slot_ms", "window_ms")

    def __init__(self, window_ms: int = MINUTE_MS, slot_ms: int = 10_000) -> None:
        self.window_ms = window_ms
        self.slot_ms = slot_ms
        self._slots: deque[list[float]] = deque()  # [slot start, count, total]
        self._first_ms: int | None = None

    def add(self, value: float, now_ms: int, count: int = 1) -> None:
        """``count`` events with ``value`` in sum."""
        if self._first_ms is None:
            self._first_ms = now_ms
        slots = self._slots
        start = now_ms - now_ms % self.slot_ms
        if slots and slots[-1][0] >= start:  # also when the clock stepped back: into the newest slot
            slot = slots[-1]
            slot[1] += count
            slot[2] += value
        else:
            slots.append([start, count, value])
            self._drop_old(now_ms)

    def totals(self, now_ms: int) -> WindowTotals:
        """Sums as of now. The span is the window, or the time since the first event when that is shorter (at least one slot)."""
        self._drop_old(now_ms)
        count = int(sum(slot[1] for slot in self._slots))
        total = sum(slot[2] for slot in self._slots)
        first_ms = now_ms if self._first_ms is None else self._first_ms
        span_ms = min(self.window_ms, max(now_ms - first_ms, self.slot_ms))
        return WindowTotals(count, total, span_ms)

    def _drop_old(self, now_ms: int) -> None:
        while self._slots and self._slots[0][0] + self.slot_ms <= now_ms - self.window_ms:
            self._slots.popleft()

    def check_invariants(self) -> None:
        starts = [slot[0] for slot in self._slots]
        assert starts == sorted(set(starts)), "slots out of order"
        assert len(starts) <= self.window_ms // self.slot_ms + 2, "more slots than the window has"


class _TopicStatistics:
    __slots__ = ("consume_failed", "consume_failed_hour", "consume_ok", "consume_rt", "pull_rt", "pull_tps")

    def __init__(self) -> None:
        self.pull_rt = RollingWindow()
        self.pull_tps = RollingWindow()
        self.consume_rt = RollingWindow()
        self.consume_ok = RollingWindow()
        self.consume_failed = RollingWindow()
        self.consume_failed_hour = RollingWindow(HOUR_MS, 360_000)


class ConsumerStatistics:
    """Statistics of one consumer, per topic."""

    __slots__ = ("_timed_out", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, _TopicStatistics] = {}
        self._timed_out: dict[str, int] = {}

    def pulled(self, topic: str, message_count: int, elapsed_ms: float, now_ms: int) -> None:
        """A pull found ``message_count`` messages after ``elapsed_ms``."""
        topic_statistics = self._of(topic)
        topic_statistics.pull_rt.add(elapsed_ms, now_ms)
        topic_statistics.pull_tps.add(message_count, now_ms)

    def consumed(self, topic: str, ok_count: int, failed_count: int, elapsed_ms: float, now_ms: int) -> None:
        """A listener call ended after ``elapsed_ms``."""
        topic_statistics = self._of(topic)
        topic_statistics.consume_rt.add(elapsed_ms, now_ms)
        if ok_count:
            topic_statistics.consume_ok.add(ok_count, now_ms)
        if failed_count:
            topic_statistics.consume_failed.add(failed_count, now_ms)
            topic_statistics.consume_failed_hour.add(failed_count, now_ms)

    def timed_out(self, topic: str, count: int, now_ms: int) -> None:
        """Messages ran into the consume timeout."""
        self._timed_out[topic] = self._timed_out.get(topic, 0) + count

    def timed_out_msgs(self, topic: str) -> int:
        """How many messages of a topic ran into the consume timeout since the consumer was made."""
        return self._timed_out.get(topic, 0)

    def status(self, topic: str, now_ms: int) -> ConsumeStatus:
        """The numbers of a topic now, as ConsumerRunningInfo shows them; zeros for a topic never seen."""
        found = self._topics.get(topic)
        if found is None:
            return ConsumeStatus()
        return ConsumeStatus(
            pull_rt=found.pull_rt.totals(now_ms).mean,
            pull_tps=found.pull_tps.totals(now_ms).per_second,
            consume_rt=found.consume_rt.totals(now_ms).mean,
            consume_ok_tps=found.consume_ok.totals(now_ms).per_second,
            consume_failed_tps=found.consume_failed.totals(now_ms).per_second,
            consume_failed_msgs=int(found.consume_failed_hour.totals(now_ms).total),
        )

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def remove(self, topic: str) -> None:
        """The topic is no longer subscribed."""
        self._topics.pop(topic, None)

    def _of(self, topic: str) -> _TopicStatistics:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _TopicStatistics()
        return found
