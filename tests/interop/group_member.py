# SPDX-License-Identifier: Apache-2.0
"""Our consumer as a process whose history is recorded; speaks the lines of java/peers/GroupMember.java, and "allocated" when that changed.

python group_member.py NAMESRV GROUP TOPIC concurrent|orderly WORK_MS
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import sprocketmq as rmq

_LOOK_S = 0.05


def say(event: str, **what: Any) -> None:
    """One whole line in one write: listeners of several threads speak at once, and a kill must not cut a line in two."""
    sys.stdout.buffer.write(json.dumps({"event": event, **what}).encode() + b"\n")
    sys.stdout.buffer.flush()


def main(namesrv_addr: str, group: str, topic: str, kind: str, work_ms: str) -> None:
    lock, ended = threading.Lock(), threading.Event()

    def tell(event: str, message: rmq.MessageExt) -> None:
        with lock:
            say(
                event,
                queueId=message.queue_id,
                offset=message.queue_offset,
                body=message.body.decode(),
                at=time.monotonic_ns(),
            )

    def work(message: rmq.MessageExt) -> None:
        tell("begin", message)
        time.sleep(int(work_ms) / 1000)
        tell("end", message)

    def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        for message in messages:
            work(message)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    consumer = rmq.PushConsumer(
        group,
        namesrv_addr=namesrv_addr,
        client_ip="127.0.0.1",
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        persist_consumer_offset_interval_ms=1_000,
        await_termination_ms=10_000,
    )
    consumer.subscribe(topic)
    if kind == "orderly":
        consumer.orderly_listener(in_order)
    else:
        consumer.on_message(work)

    def watch_input() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=watch_input, daemon=True).start()
    with consumer:
        say("ready")
        before: list[int] | None = None
        while not ended.wait(_LOOK_S):
            now = sorted(queue.queue_id for queue in consumer.assigned_queues if queue.topic == topic)
            if now != before:
                before = now
                with lock:
                    say("allocated", queues=",".join(map(str, now)))
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
