# SPDX-License-Identifier: Apache-2.0
"""Rows at a steady rate into a long stream, and an ordinary consumer that counts what comes out; the ledger judges.

sender, by the clock --> rows --> (the stream) --> sink, %DLQ% --> counter, a pull consumer --> SoakLedger
                           ^                |
                           `--- %RETRY% <---'
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

import sprocketmq as rmq
from sprocketmq.wire.records import properties as props
from system.spark.soak_ledger import SoakLedger
from system.spark.soaked_stream import DEAD, GROUP, RETRY, ROWS, SINK

_TICK_S: Final = 0.05
_MOST_AT_ONCE: Final = 500
_PADDING: Final = " " * 150
FIRST: Final = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class SoakTraffic:
    """Use as a context manager: topics are made, the counter runs. ``send_for`` returns when the time is over; ``settled`` says when all
    rows are at their end and nobody is behind. ``each_tick`` is called between two sends.

    Raises (``check``): what went wrong in the counter's thread.
    """

    def __init__(self, namesrv_addr: str, seed: int, rate: int) -> None:
        self.ledger = SoakLedger(seed)
        self.again = 0  # messages that the counter was given a second time
        self.latest_send_s = 0.0  # how late a row was sent, at worst
        self.each_tick: Callable[[], object] = self.check
        self.rate = rate
        self._admin = rmq.Admin(namesrv_addr=namesrv_addr)
        self._producer = rmq.Producer("soak-sender", namesrv_addr=namesrv_addr, send_msg_timeout_ms=15_000)
        self._counter = rmq.PullConsumer("soak-counter", namesrv_addr=namesrv_addr, consume_from_where=FIRST)
        self._next: dict[rmq.MessageQueue, int] = {}
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._count, name="soak-counter", daemon=True)

    def __enter__(self) -> SoakTraffic:
        self._admin.start()
        for topic in (ROWS, SINK):
            self._admin.create_topic(topic, queues=4)
        self._producer.start()
        self._counter.start()
        self._counter.subscribe(SINK)
        self._counter.subscribe(DEAD)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(60)
        for client in (self._counter, self._producer, self._admin):
            client.shutdown()

    def send_for(self, seconds: float) -> None:
        """As many rows as the clock says, never more; a sender that was held up makes up for it."""
        began_s = time.monotonic()
        wanted = int(seconds * self.rate)
        while self.ledger.sent < wanted:
            due = min(wanted, int((time.monotonic() - began_s) * self.rate))
            while (count := min(due - self.ledger.sent, _MOST_AT_ONCE)) > 0:
                first = self.ledger.sent
                self._producer.send_batch([self._row(number) for number in range(first, first + count)])
                self.ledger.sent += count
                self.latest_send_s = max(self.latest_send_s, time.monotonic() - began_s - self.ledger.sent / self.rate)
            self.check()
            self.each_tick()
            time.sleep(_TICK_S)

    @staticmethod
    def _row(number: int) -> rmq.Message:
        return rmq.Message(ROWS, f"{number}{_PADDING}".encode(), keys=str(number))

    def behind(self) -> int:
        """What the stream's group has not read yet, as the broker sees it (mqadmin: consumerProgress)."""
        try:
            return self._admin.lag(GROUP)
        except rmq.GroupNotExist:  # the stream has not begun
            return 0

    def retry_messages(self) -> int:
        """How many messages the retry topic ever held."""
        try:
            return sum(offset.max_offset for offset in self._admin.topic_stats(RETRY).values())
        except rmq.TopicNotExist:
            return 0

    def settled(self) -> bool:
        self.check()
        return self.ledger.under_way <= 0 and self.behind() == 0

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    # -- the counter -----------------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        try:
            while not self._over.is_set():
                for message in self._counter.poll(1024, timeout_ms=500):
                    self._take(message)
        except BaseException as error:  # noqa: BLE001 - told to who sends and waits
            self._error = error

    def _take(self, message: rmq.MessageExt) -> None:
        queue = rmq.MessageQueue(message.topic, message.broker_name, message.queue_id)
        if message.queue_offset < self._next.get(queue, 0):
            self.again += 1
            return
        self._next[queue] = message.queue_offset + 1
        if message.topic == SINK:
            self.ledger.at_sink(int(message.body), int(message.properties["tries"]))
        else:
            reason = message.properties.get(props.RETRY_REASON, "")
            self.ledger.dead_letter(int(message.body.split()[0]), message.reconsume_times, reason)
