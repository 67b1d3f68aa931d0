# SPDX-License-Identifier: Apache-2.0
"""Clients that only wait, in a process whose processor time is somebody's to judge: ``idle_clients.py NAMESRV_ADDR TOPIC``."""

from __future__ import annotations

import contextlib
import sys

import sprocketmq as rmq


def main(namesrv_addr: str, topic: str) -> None:
    with contextlib.ExitStack() as life:
        for number, name in enumerate((topic, "missing-a", "missing-b")):
            consumer = rmq.PushConsumer(f"idle-{number}", namesrv_addr=namesrv_addr, instance_name="idle")
            consumer.subscribe(name)
            consumer.on_message(lambda message: None)
            consumer.start()
            life.callback(consumer.shutdown)
        life.enter_context(rmq.Producer("idle", namesrv_addr=namesrv_addr))
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:3])
