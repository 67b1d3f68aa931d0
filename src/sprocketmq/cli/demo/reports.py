# SPDX-License-Identifier: Apache-2.0
"""What the demo and its child processes tell each other, and the names that they share."""

from __future__ import annotations

from typing import Final

import msgspec

from sprocketmq.cli.frame.target import Target

TOPIC: Final = "flights"
QUEUES: Final = 8
PUSH_GROUP: Final = "delays-push"
ORDERLY_GROUP: Final = "tails-orderly"
SPARK_GROUP: Final = "delays-spark"
MAX_RECONSUME_TIMES: Final = 2
# The first level, one second. The default schedule begins at the third, and would make the demo a minute longer.
RETRY_LEVEL: Final = 1


class Options(msgspec.Struct):
    """``members``: of the group. ``out``: the folder for the results of the pipeline."""

    target: Target
    member: int = 1
    members: int = 1
    out: str = ""


class Failure(msgspec.Struct, array_like=True):
    row: int
    reconsume_times: int
    message_id: str


class Deliveries(msgspec.Struct):
    """Since the last report of a push member: the rows consumed, and the deliveries that failed."""

    consumed: list[int]
    failed: list[Failure]


class InOrder(msgspec.Struct):
    """Since the last report of an orderly member."""

    rows: list[int]
    repeated: int = 0
    inversions: int = 0


class Batch(msgspec.Struct):
    """A micro-batch of the pipeline: rows written, sent back to be retried, and made dead letters."""

    good: int
    retried: int
    dead: int
