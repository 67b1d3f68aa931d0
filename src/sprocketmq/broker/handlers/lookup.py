"""Looking up one stored message: VIEW_MESSAGE_BY_ID 33. Java: QueryMessageProcessor.

Field: offset, the commit log offset out of the offset message id. Answer: the record. Gaps: QUERY_MESSAGE 12 (there is no index).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.net.connection import Connection
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.headers import ViewMessageRequestHeader

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["HANDLERS"]


def view_message(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    offset = command.header(ViewMessageRequestHeader).offset
    record = broker.store.record_at(offset)
    if record is None:
        remark = f"no message begins at commit log offset {offset}, or it expired"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    connection.send_with_body(response(command), [record], len(record))
    return None


HANDLERS = {RequestCode.VIEW_MESSAGE_BY_ID: view_message}
