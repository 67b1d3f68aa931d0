# SPDX-License-Identifier: Apache-2.0
"""A send whose first try ends soon without an answer, and whose next ones have all the time of a busy machine."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

import sprocketmq as rmq
from sprocketmq.wire.frames.command import Command


def only_this_try(producer: rmq.Producer | rmq.AsyncProducer, limit_ms: int | None = None) -> Callable[[Command], bool]:
    """For ``when`` of a fault: from the request on that it strikes, ``send_msg_max_timeout_per_request_ms`` of the producer is off.

    Args:
        limit_ms: the option until then; default as the producer was made with.
    """
    sender = (producer._async if isinstance(producer, rmq.Producer) else producer)._sender
    assert sender is not None

    def set_limit(limit_ms: int) -> None:
        sender.settings = msgspec.structs.replace(sender.settings, send_msg_max_timeout_per_request_ms=limit_ms)

    def switch_off(command: Command) -> bool:
        set_limit(-1)
        return True

    if limit_ms is not None:
        set_limit(limit_ms)
    return switch_off
