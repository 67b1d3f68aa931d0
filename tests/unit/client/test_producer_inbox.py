# SPDX-License-Identifier: Apache-2.0
"""Messages of ``send_async`` that wait for an engine which was closed: each future ends, however many threads empty the inbox."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import sprocketmq as rmq
from sprocketmq.client.produce.send_future import SendFuture
from sprocketmq.net.process.engine import Engine


class SharedInbox(deque[Any]):
    """After the first message is taken, another thread takes the others."""

    take_others: Callable[[], None] | None = None

    def popleft(self) -> Any:
        taken = super().popleft()
        take_others, self.take_others = self.take_others, None
        if take_others is not None:
            other = threading.Thread(target=take_others)
            other.start()
            other.join(20)
            assert not self
        return taken


def test_two_threads_that_empty_the_inbox_of_a_closed_engine_lose_no_future():
    engine = Engine()
    producer = rmq.Producer("closed", namesrv_addr="127.0.0.1:9876", auto_batch=True, engine=engine)
    engine.close()
    futures = [SendFuture() for _ in range(3)]
    producer._inbox = SharedInbox((rmq.Message("flights", b"late"), future, None) for future in futures)
    producer._inbox.take_others = producer._wake
    producer._wake()
    for future in futures:
        assert isinstance(future.exception(0), rmq.ClosedError)
    assert not producer._is_awake
