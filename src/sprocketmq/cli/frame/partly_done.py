# SPDX-License-Identifier: Apache-2.0
"""The end of a command that did a part of its work: a script must not take it for "nothing was done" and start again."""

from __future__ import annotations

from sprocketmq.errors import RocketMQError


class PartlyDone(RocketMQError):
    """A part was done, and the rest was not; the text has the count and the reason. Exit code 4."""
