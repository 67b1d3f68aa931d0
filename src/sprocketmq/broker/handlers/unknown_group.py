# SPDX-License-Identifier: Apache-2.0
"""The answer to a request of a consumer group that the broker does not know (Java: SUBSCRIPTION_GROUP_NOT_EXIST)."""

from __future__ import annotations

from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response


def unknown_group(command: Command, group: str) -> Command:
    remark = f"consumer group {group} does not exist; create it first"
    return response(command, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
