# SPDX-License-Identifier: Apache-2.0
"""Requests about messages: send, pull, send back, look up, transactions."""

from __future__ import annotations

from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire import headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.requests.access import (
    CONSUME,
    CONSUME_OR_LOOK,
    FROM_ITS_BROKER,
    PUBLISH,
    UPDATE,
    group,
    record,
    reply,
    topic,
)
from sprocketmq.wire.requests.declaration import MessageBody, Peer, Records, Request

SEND_MESSAGE = Request(
    code=RequestCode.SEND_MESSAGE,
    access=topic("topic", PUBLISH),
    header=headers.SendMessageRequestHeader,
    body=MessageBody,
    answer_header=headers.SendMessageResponseHeader,
    oneway=True,
)
SEND_MESSAGE_V2 = Request(
    code=RequestCode.SEND_MESSAGE_V2,
    access=topic("b", PUBLISH),
    header=headers.SendMessageRequestHeaderV2,
    body=MessageBody,
    answer_header=headers.SendMessageResponseHeader,
    oneway=True,
)
SEND_BATCH_MESSAGE = Request(
    code=RequestCode.SEND_BATCH_MESSAGE,
    access=topic("b", PUBLISH),
    header=headers.SendMessageRequestHeaderV2,
    body=MessageBody,
    answer_header=headers.SendMessageResponseHeader,
    oneway=True,
)
SEND_REPLY_MESSAGE = Request(
    code=RequestCode.SEND_REPLY_MESSAGE,
    access=reply("topic"),
    header=headers.SendMessageRequestHeader,
    body=MessageBody,
    answer_header=headers.SendMessageResponseHeader,
)
SEND_REPLY_MESSAGE_V2 = Request(
    code=RequestCode.SEND_REPLY_MESSAGE_V2,
    access=reply("b"),
    header=headers.SendMessageRequestHeaderV2,
    body=MessageBody,
    answer_header=headers.SendMessageResponseHeader,
)
PUSH_REPLY_MESSAGE_TO_CLIENT = Request(
    code=RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=headers.ReplyMessageRequestHeader,
    body=MessageBody,
)
PULL_MESSAGE = Request(
    code=RequestCode.PULL_MESSAGE,
    access=topic("topic", CONSUME) + group("consumerGroup", CONSUME),
    header=headers.PullMessageRequestHeader,
    answer_header=headers.PullMessageResponseHeader,
    answer_body=Records,
)
LITE_PULL_MESSAGE = Request(
    code=RequestCode.LITE_PULL_MESSAGE,
    access=topic("topic", CONSUME) + group("consumerGroup", CONSUME),
    header=headers.PullMessageRequestHeader,
    answer_header=headers.PullMessageResponseHeader,
    answer_body=Records,
)


def _offset_of_send_back(command: Command) -> int:
    return command.header(headers.ConsumerSendMsgBackRequestHeader).offset


CONSUMER_SEND_MSG_BACK = Request(
    code=RequestCode.CONSUMER_SEND_MSG_BACK,
    access=group("group", CONSUME) + record(_offset_of_send_back, CONSUME),
    header=headers.ConsumerSendMsgBackRequestHeader,
)


def offset_in(message_id: str | None) -> int:
    """The commit log offset in an offset message id. Raises ProtocolError if it is not a valid id."""
    try:
        return decode_offset_message_id(message_id or "")[1]
    except ConfigurationError as error:
        raise ProtocolError(str(error)) from error


QUERY_MESSAGE = Request(
    code=RequestCode.QUERY_MESSAGE,
    access=topic("topic", CONSUME_OR_LOOK),
    header=headers.QueryMessageRequestHeader,
    answer_header=headers.QueryMessageResponseHeader,
    answer_body=Records,
)


def _offset_of_viewed(command: Command) -> int:
    return command.header(headers.ViewMessageRequestHeader).offset


VIEW_MESSAGE_BY_ID = Request(
    code=RequestCode.VIEW_MESSAGE_BY_ID,
    access=record(_offset_of_viewed, CONSUME_OR_LOOK),
    header=headers.ViewMessageRequestHeader,
    answer_body=Records,
)
RECALL_MESSAGE = Request(
    code=RequestCode.RECALL_MESSAGE,
    access=topic("topic", PUBLISH),
    header=headers.RecallMessageRequestHeader,
    answer_header=headers.RecallMessageResponseHeader,
)


def _offset_of_ended(command: Command) -> int:
    return command.header(headers.EndTransactionRequestHeader).commit_log_offset


END_TRANSACTION = Request(
    code=RequestCode.END_TRANSACTION,
    access=record(_offset_of_ended, PUBLISH),
    header=headers.EndTransactionRequestHeader,
    oneway=True,
)
CHECK_TRANSACTION_STATE = Request(
    code=RequestCode.CHECK_TRANSACTION_STATE,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=headers.CheckTransactionStateRequestHeader,
    body=Records,
    oneway=True,
)


def _offset_of_resumed(command: Command) -> int:
    return offset_in(command.header(headers.ResumeCheckHalfMessageRequestHeader).msg_id)


RESUME_CHECK_HALF_MESSAGE = Request(
    code=RequestCode.RESUME_CHECK_HALF_MESSAGE,
    access=record(_offset_of_resumed, UPDATE),
    header=headers.ResumeCheckHalfMessageRequestHeader,
)
