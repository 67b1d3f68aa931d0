# SPDX-License-Identifier: Apache-2.0
"""Answers to SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE, of which four codes mean "stored"."""

from __future__ import annotations

from sprocketmq.client.results import SEND_STATUS_BY_CODE, SendStatus
from sprocketmq.core.produce.topic_types import type_refusal
from sprocketmq.errors import remote_error
from sprocketmq.wire import headers
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command


def send_answer(answer: Command, address: str) -> tuple[SendStatus, headers.SendMessageResponseHeader]:
    status = SEND_STATUS_BY_CODE.get(answer.code)
    if status is None:
        in_words = type_refusal(answer.remark or "") if answer.code == ResponseCode.MESSAGE_ILLEGAL else None
        raise remote_error(answer.code, in_words or answer.remark, address)
    return status, answer.header(headers.SendMessageResponseHeader)
