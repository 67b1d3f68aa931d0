# SPDX-License-Identifier: Apache-2.0
"""Readers that decode the most frequent requests straight into their typed headers (see ``wire.frames.raw_command``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sprocketmq.wire.frames.raw_command import HeaderReader, binary_header_reader, header_reader
from sprocketmq.wire.headers.pull import PullMessageRequestHeader
from sprocketmq.wire.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from sprocketmq.wire.requests import messages

_REQUESTS: Final = (
    messages.SEND_MESSAGE_V2,
    messages.SEND_MESSAGE,
    messages.SEND_BATCH_MESSAGE,
    messages.PULL_MESSAGE,
    messages.LITE_PULL_MESSAGE,
    messages.CONSUMER_SEND_MSG_BACK,
)
# The two fields with a new value in each request of one client (see ``wire.frames.header_shapes``).
_VARYING: Final[Mapping[type[Any], tuple[str, str]]] = {
    SendMessageRequestHeader: ("born_timestamp", "properties"),
    SendMessageRequestHeaderV2: ("born_timestamp", "properties"),
    PullMessageRequestHeader: ("queue_offset", "commit_offset"),
    ConsumerSendMsgBackRequestHeader: ("offset", "origin_msg_id"),
}

READERS: Final[Mapping[bytes, HeaderReader]] = {
    **{f'{int(one.code)},"'.encode()[:4]: header_reader(int(one.code), one.header) for one in _REQUESTS if one.header},
    **{
        int(one.code).to_bytes(2, "big"): binary_header_reader(one.header, _VARYING[one.header])
        for one in _REQUESTS
        if one.header
    },
}
"""Readers of JSON headers by the four bytes behind ``{"code":``, and of ROCKETMQ headers by the two bytes of the code."""
