# SPDX-License-Identifier: Apache-2.0
"""Traffic that stops for nothing: a producer, a concurrent group, an orderly group of two members, and what each of them saw."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import sprocketmq as rmq
from interop.child import HANG_S, poll_until
from sprocketmq.errors import ConfigurationError

KEYS = tuple(f"N{number}" for number in range(12))
QUICK: dict[str, Any] = {
    "poll_name_server_interval_ms": 500,
    "heartbeat_broker_interval_ms": 1_000,
    "persist_consumer_offset_interval_ms": 500,
    "pull_time_delay_when_exception_ms": 200,
}


@dataclass
class Seen:
    """What a member of the orderly group had in hand, in the order in which its calls began."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    offsets: defaultdict[rmq.MessageQueue, list[int]] = field(default_factory=lambda: defaultdict(list))
    in_hand: defaultdict[rmq.MessageQueue, list[str]] = field(default_factory=lambda: defaultdict(list))
    in_two_hands: list[str] = field(default_factory=list)
    bodies: set[str] = field(default_factory=set)


class LiveTraffic:
    """Sends until it is told to stop; ``check`` says what was lost.

    Args:
        namesrv_addr: whose cluster; ``topic`` has to be there.
    """

    def __init__(self, namesrv_addr: str, topic: str) -> None:
        self.topic, self.group = topic, f"live-{topic}"
        self.sent: set[str] = set()
        self.refused = 0
        self.consumed: set[str] = set()
        self.ordered = Seen()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send, name="live-traffic")
        self._life = contextlib.ExitStack()
        self._producer = rmq.Producer("live", namesrv_addr=namesrv_addr, poll_name_server_interval_ms=500)
        self._admin = rmq.Admin(namesrv_addr=namesrv_addr)
        self._members = [
            self._concurrent(namesrv_addr),
            *(self._orderly(namesrv_addr, name) for name in ("one", "two")),
        ]

    def _concurrent(self, namesrv_addr: str) -> rmq.PushConsumer:
        consumer = rmq.PushConsumer(
            self.group,
            namesrv_addr=namesrv_addr,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            **QUICK,
        )
        consumer.subscribe(self.topic)
        consumer.on_message(lambda message: self.consumed.add(message.body.decode()))
        return consumer

    def _orderly(self, namesrv_addr: str, name: str) -> rmq.PushConsumer:
        consumer = rmq.PushConsumer(
            f"{self.group}-ordered",
            namesrv_addr=namesrv_addr,
            instance_name=f"{self.topic}-{name}",
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            **QUICK,
        )
        consumer.subscribe(self.topic)
        seen = self.ordered

        @consumer.orderly_listener
        def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
            queue = messages[0].message_queue
            with seen.lock:
                if others := seen.in_hand[queue]:
                    seen.in_two_hands.append(f"{queue} is with {name} and with {' and '.join(others)}")
                others.append(name)
                seen.offsets[queue] += [message.queue_offset for message in messages]
            pause(0.001)  # a listener's work: if a second member had the queue, the two would meet here
            with seen.lock:
                seen.in_hand[queue].remove(name)
                seen.bodies |= {message.body.decode() for message in messages}
            return rmq.ConsumeOrderlyStatus.SUCCESS

        return consumer

    def _send(self) -> None:
        for number in itertools.count():
            if self._ends.is_set():
                return
            key = KEYS[number % len(KEYS)]
            body = f"{key} {number}"
            try:
                self._producer.send(rmq.Message(self.topic, body.encode(), keys=body), sharding_key=key)
            except rmq.RocketMQError:
                self.refused += 1  # it may be stored all the same: then it may be consumed, and need not
                self._ends.wait(0.05)
            else:
                self.sent.add(body)
                self._ends.wait(0.002)

    def flows(self, count: int = 100) -> None:
        """Wait until ``count`` more messages were sent, and as many more were consumed by both groups."""
        before = len(self.sent), len(self.consumed), len(self.ordered.bodies)
        poll_until(
            lambda: all(
                now >= then + count
                for now, then in zip(
                    (len(self.sent), len(self.consumed), len(self.ordered.bodies)), before, strict=True
                )
            ),
            "messages flow",
            HANG_S,
        )

    def stop_sending(self) -> None:
        self._ends.set()
        self._thread.join(HANG_S)

    def _is_written(self, group: str) -> bool:
        try:
            return self._admin.lag(group, self.topic) == 0
        except ConfigurationError:  # a name server that was frozen forgot the broker, and hears it again within 30 s
            return False

    def check(self, *, locks_were_lost: bool = False) -> None:
        """Sending ends; what was acknowledged is consumed by both groups, each queue in order and in one hand, and progress says so.

        ``locks_were_lost``: the broker was started anew, and keeps its locks in memory alone (Java: RebalanceLockManager). Who comes back
        first is the only member for a moment, and gets locks that the other one believes in for up to 30 s more, as in Java. Then a
        queue may be in two hands for so long; still each of them reads it in order.
        """
        self.stop_sending()
        poll_until(lambda: self.sent <= self.consumed, f"{self.group} consumes everything")
        poll_until(lambda: self.sent <= self.ordered.bodies, f"{self.group}-ordered consumes everything")
        assert locks_were_lost or self.ordered.in_two_hands == []
        for queue, offsets in self.ordered.offsets.items():
            first_times = list(dict.fromkeys(offsets))
            assert first_times == sorted(first_times), f"{queue} was consumed out of order"
        for group in (self.group, f"{self.group}-ordered"):
            poll_until(partial(self._is_written, group), "progress is written")

    def __enter__(self) -> LiveTraffic:
        self._life.__enter__()
        try:
            parts: list[contextlib.AbstractContextManager[Any]] = [self._producer, self._admin, *self._members]
            for part in parts:
                self._life.enter_context(part)
            self._thread.start()
            self._life.callback(self.stop_sending)
            self.flows()
        except BaseException:
            self._life.close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._life.close()


def pause(seconds: float) -> None:
    """A frozen peer stays frozen for a while: the only thing to wait for is time."""
    time.sleep(seconds)
