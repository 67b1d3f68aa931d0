# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq handover``: a slave takes over from its master (docs/guides/grow-out.md)."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

from sprocketmq.cli.frame.target import Target
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.errors import ConfigurationError, RocketMQError, remote_error
from sprocketmq.net.pool import ConnectionPool, split_address
from sprocketmq.net.process.engine import new_event_loop
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import HandoverStatus
from sprocketmq.wire.headers import HandoverRequestHeader

_TIMEOUT_MS: Final = 5_000
_POLL_S: Final = 0.1
_GRACE_S: Final = 5.0


def hand_over(broker: str, timeout_s: float, target: Target) -> int:
    """Start the handover, report on stderr what it waits for, and finish it. Returns the exit code: 0, or 1 after ``timeout_s``."""
    split_address(broker, "--broker")
    if timeout_s <= 0:
        raise ConfigurationError(f"--timeout is {timeout_s:g}, more than 0 seconds is allowed")
    options = ClientOptions(**target.options())
    loop = new_event_loop()
    try:
        return loop.run_until_complete(_hand_over(broker, timeout_s, options))
    finally:
        loop.close()


async def _hand_over(broker: str, timeout_s: float, options: ClientOptions) -> int:
    pool = ConnectionPool(ssl_context=options.new_ssl_context(), credentials=options.credentials)

    async def step(name: str, timeout_ms: int | None = None) -> HandoverStatus:
        header = HandoverRequestHeader(step=name, timeout_ms=timeout_ms)
        answer = await pool.invoke(broker, requests.brokers.HANDOVER.command(header), _TIMEOUT_MS)
        if answer.code:
            raise remote_error(answer.code, answer.remark, broker)
        return HandoverStatus.decode(answer.body)

    # If this command is killed, the broker ends the handover by itself, a little after the timeout.
    status = await step("start", int((timeout_s + _GRACE_S) * 1000))
    deadline, reported = time.monotonic() + timeout_s, ""
    try:
        while status.state not in ("drained", "given") and time.monotonic() < deadline:
            if status.waits_for != reported:
                reported = status.waits_for
                _report(f"waiting for {reported}")
            await asyncio.sleep(_POLL_S)
            status = await step("status")
        if status.state == "drained":
            status = await step("finish")
        if status.state != "given":
            _report(f"gave up after {timeout_s:g} s; the broker continues as before")
            return 1
    finally:
        if status.state != "given":
            try:
                await step("cancel")
            except RocketMQError as error:
                _report(
                    f"the handover could not be cancelled: {error}; the broker ends it {_GRACE_S:g} s after the timeout"
                )
        await pool.aclose()
    print(f"handed over log={status.log_end} slave={','.join(status.slaves)}")
    return 0


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
