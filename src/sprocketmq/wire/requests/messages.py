# SPDX-License-Identifier: Apache-2.0
"""Requests about messages: send, pull, send back, look up, transactions."""

from __future__ import annotations

from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers.lookup import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from sprocketmq.wire.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from sprocketmq.wire.headers.recall import RecallMessageRequestHeader, RecallMessageResponseHeader
from sprocketmq.wire.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from sprocketmq.wire.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
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
    served_by=Peer.BROKER,
    access=topic("topic", PUBLISH),
    header=SendMessageRequestHeader,
    body=MessageBody,
    answer_header=SendMessageResponseHeader,
    oneway=True,
)
SEND_MESSAGE_V2 = Request(
    code=RequestCode.SEND_MESSAGE_V2,
    served_by=Peer.BROKER,
    access=topic("b", PUBLISH),
    header=SendMessageRequestHeaderV2,
    body=MessageBody,
    answer_header=SendMessageResponseHeader,
    oneway=True,
)
SEND_BATCH_MESSAGE = Request(
    code=RequestCode.SEND_BATCH_MESSAGE,
    served_by=Peer.BROKER,
    access=topic("b", PUBLISH),
    header=SendMessageRequestHeaderV2,
    body=MessageBody,
    answer_header=SendMessageResponseHeader,
    oneway=True,
)
SEND_REPLY_MESSAGE = Request(
    code=RequestCode.SEND_REPLY_MESSAGE,
    served_by=Peer.BROKER,
    access=reply("topic"),
    header=SendMessageRequestHeader,
    body=MessageBody,
    answer_header=SendMessageResponseHeader,
)
SEND_REPLY_MESSAGE_V2 = Request(
    code=RequestCode.SEND_REPLY_MESSAGE_V2,
    served_by=Peer.BROKER,
    access=reply("b"),
    header=SendMessageRequestHeaderV2,
    body=MessageBody,
    answer_header=SendMessageResponseHeader,
)
PUSH_REPLY_MESSAGE_TO_CLIENT = Request(
    code=RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=ReplyMessageRequestHeader,
    body=MessageBody,
)
PULL_MESSAGE = Request(
    code=RequestCode.PULL_MESSAGE,
    served_by=Peer.BROKER,
    access=topic("topic", CONSUME) + group("consumerGroup", CONSUME),
    header=PullMessageRequestHeader,
    answer_header=PullMessageResponseHeader,
    answer_body=Records,
)
LITE_PULL_MESSAGE = Request(
    code=RequestCode.LITE_PULL_MESSAGE,
    served_by=Peer.BROKER,
    access=topic("topic", CONSUME) + group("consumerGroup", CONSUME),
    header=PullMessageRequestHeader,
    answer_header=PullMessageResponseHeader,
    answer_body=Records,
)


def _offset_of_send_back(command: Command) -> int:
    return command.header(ConsumerSendMsgBackRequestHeader).offset


CONSUMER_SEND_MSG_BACK = Request(
    code=RequestCode.CONSUMER_SEND_MSG_BACK,
    served_by=Peer.BROKER,
    access=group("group", CONSUME) + record(_offset_of_send_back, CONSUME),
    header=ConsumerSendMsgBackRequestHeader,
)


def offset_in(message_id: str | None) -> int:
    """The commit log offset in an offset message id. Raises ProtocolError if it is not a valid id."""
    try:
        return decode_offset_message_id(message_id or "")[1]
    except ConfigurationError as error:
        raise ProtocolError(str(error)) from error


QUERY_MESSAGE = Request(
    code=RequestCode.QUERY_MESSAGE,
    served_by=Peer.BROKER,
    access=topic("topic", CONSUME_OR_LOOK),
    header=QueryMessageRequestHeader,
    answer_header=QueryMessageResponseHeader,
    answer_body=Records,
)


def _offset_of_viewed(command: Command) -> int:
    return command.header(ViewMessageRequestHeader).offset


VIEW_MESSAGE_BY_ID = Request(
    code=RequestCode.VIEW_MESSAGE_BY_ID,
    served_by=Peer.BROKER,
    access=record(_offset_of_viewed, CONSUME_OR_LOOK),
    header=ViewMessageRequestHeader,
    answer_body=Records,
)
RECALL_MESSAGE = Request(
    code=RequestCode.RECALL_MESSAGE,
    served_by=Peer.BROKER,
    access=topic("topic", PUBLISH),
    header=RecallMessageRequestHeader,
    answer_header=RecallMessageResponseHeader,
)


def _offset_of_ended(command: Command) -> int:
    return command.header(EndTransactionRequestHeader).commit_log_offset


END_TRANSACTION = Request(
    code=RequestCode.END_TRANSACTION,
    served_by=Peer.BROKER,
    access=record(_offset_of_ended, PUBLISH),
    header=EndTransactionRequestHeader,
    oneway=True,
)
CHECK_TRANSACTION_STATE = Request(
    code=RequestCode.CHECK_TRANSACTION_STATE,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=CheckTransactionStateRequestHeader,
    body=Records,
    oneway=True,
)


def _offset_of_resumed(command: Command) -> int:
    return offset_in(command.header(ResumeCheckHalfMessageRequestHeader).msg_id)


RESUME_CHECK_HALF_MESSAGE = Request(
    code=RequestCode.RESUME_CHECK_HALF_MESSAGE,
    served_by=Peer.BROKER,
    access=record(_offset_of_resumed, UPDATE),
    header=ResumeCheckHalfMessageRequestHeader,
)
