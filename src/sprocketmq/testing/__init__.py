# SPDX-License-Identifier: Apache-2.0
"""RocketMQ for tests: a name server and broker inside the test's process, a clock that the test moves, faults on demand.

    from sprocketmq.testing import EmbeddedRocketMQ

    with EmbeddedRocketMQ() as rocketmq:
        with rocketmq.producer("ops") as producer: ...

With pytest, take the fixture ``rocketmq``. Every pytest run on the machine loads the plugin, so names are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.names import names_of

if TYPE_CHECKING:
    from sprocketmq.net.process.clock import Clock as Clock
    from sprocketmq.net.process.clock import ManualClock as ManualClock
    from sprocketmq.net.process.clock import SystemClock as SystemClock
    from sprocketmq.testing.embedded import EmbeddedRocketMQ as EmbeddedRocketMQ
    from sprocketmq.testing.faults import HEARTBEATS as HEARTBEATS
    from sprocketmq.testing.faults import PULLS as PULLS
    from sprocketmq.testing.faults import SENDS as SENDS
    from sprocketmq.testing.faults import Fault as Fault
    from sprocketmq.testing.faults import FaultInjector as FaultInjector
    from sprocketmq.testing.messages import message as message
    from sprocketmq.wire.codes import RequestCode as RequestCode
    from sprocketmq.wire.codes import ResponseCode as ResponseCode
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            ".net.process.clock": "Clock ManualClock SystemClock",
            "embedded": "EmbeddedRocketMQ",
            "faults": "HEARTBEATS PULLS SENDS Fault FaultInjector",
            "messages": "message",
            ".wire.codes": "RequestCode ResponseCode",
        },
    )
