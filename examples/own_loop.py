# SPDX-License-Identifier: Apache-2.0
"""A program with an event loop of its own, here one of ``selectors``, which waits for messages and for commands in one place.

NAMESRV_ADDR=127.0.0.1:9876 python examples/own_loop.py
"""

from __future__ import annotations

import os
import selectors
import socket

import sprocketmq as rmq


def main(namesrv_addr: str) -> None:
    with rmq.Producer("shop", namesrv_addr=namesrv_addr) as producer:
        for number in range(3):
            producer.send(rmq.Message("orders", f"order-{number}".encode()))

    consumer = rmq.PushConsumer(
        "billing", namesrv_addr=namesrv_addr, consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe("orders")
    commands, operator = socket.socketpair()
    billed = 0
    with commands, operator, selectors.DefaultSelector() as selector, consumer.messages() as messages:

        def on_messages() -> None:
            nonlocal billed
            try:
                received = messages.receive(timeout_ms=0)  # never waits; may find nothing
            except rmq.ClosedError:  # stopped here, or shut down elsewhere: no more messages come
                selector.unregister(messages)
                return
            for message in received:
                with message.process():
                    print(f"billed {message.body.decode()}")
                    billed += 1
            if billed == 3:
                operator.send(b"stop")

        def on_command() -> None:
            print(f"command: {commands.recv(64).decode()}")
            selector.unregister(commands)
            messages.stop()

        selector.register(messages, selectors.EVENT_READ, on_messages)  # calls messages.fileno()
        selector.register(commands, selectors.EVENT_READ, on_command)
        while selector.get_map():
            for key, _ in selector.select():
                key.data()


if __name__ == "__main__":
    main(os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
