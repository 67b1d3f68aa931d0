# SPDX-License-Identifier: Apache-2.0
"""RocketMQ for tests: a name server and broker inside the test's process, a clock that the test moves, faults on demand.

    from sprocketmq.testing import EmbeddedRocketMQ

    with EmbeddedRocketMQ() as rocketmq:
        with rocketmq.producer("ops") as producer: ...

With pytest, take the fixture ``rocketmq``. Every pytest run on the machine loads the plugin, so names are imported when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sprocketmq.net.process.clock import Clock, ManualClock, SystemClock
    from sprocketmq.testing.embedded import EmbeddedRocketMQ
    from sprocketmq.testing.faults import HEARTBEATS, PULLS, SENDS, Fault, FaultInjector
    from sprocketmq.testing.messages import message
    from sprocketmq.wire.codes import RequestCode, ResponseCode

__all__ = [
    "HEARTBEATS",
    "PULLS",
    "SENDS",
    "Clock",
    "EmbeddedRocketMQ",
    "Fault",
    "FaultInjector",
    "ManualClock",
    "RequestCode",
    "ResponseCode",
    "SystemClock",
    "message",
]

_HOME = {
    "HEARTBEATS": "sprocketmq.testing.faults",
    "PULLS": "sprocketmq.testing.faults",
    "SENDS": "sprocketmq.testing.faults",
    "Clock": "sprocketmq.net.process.clock",
    "EmbeddedRocketMQ": "sprocketmq.testing.embedded",
    "Fault": "sprocketmq.testing.faults",
    "FaultInjector": "sprocketmq.testing.faults",
    "ManualClock": "sprocketmq.net.process.clock",
    "RequestCode": "sprocketmq.wire.codes",
    "ResponseCode": "sprocketmq.wire.codes",
    "SystemClock": "sprocketmq.net.process.clock",
    "message": "sprocketmq.testing.messages",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
