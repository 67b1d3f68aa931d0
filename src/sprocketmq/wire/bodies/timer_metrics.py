"""How many timer messages wait for each topic: ``config/timermetrics`` and the answer to GET_TIMER_METRICS (Java: TimerMetrics)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion

__all__ = ["TimerMetric", "TimerMetricsSerializeWrapper"]


class TimerMetric(Body):
    """One topic; ``time_stamp`` (ms) of the last change."""

    count: int = 0
    time_stamp: int = 0


class TimerMetricsSerializeWrapper(Body):
    """All topics of a broker."""

    timing_count: dict[str, TimerMetric] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
