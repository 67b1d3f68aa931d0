# SPDX-License-Identifier: Apache-2.0
"""The end of transactions (Java: EndTransactionProcessor, AdminBrokerProcessor.resumeCheckHalfMessage).

commitOrRollback 0 (unknown) causes neither action nor answer; 604 if a producer that set CHECK_IMMUNITY_TIME_IN_SECONDS ends it later than
that without being asked. Unlike in Java, the named message must be a half message, and a transaction that has ended stays as it ended.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.table import serves
from sprocketmq.core.resource_names import TRANS_CHECK_MAX_TIME_TOPIC
from sprocketmq.core.transactions.transaction_check import Outcome
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.records.sys_flag import TRANSACTION_COMMIT_TYPE, TRANSACTION_NOT_TYPE, TRANSACTION_ROLLBACK_TYPE

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

_OUTCOMES: Final = {TRANSACTION_COMMIT_TYPE: Outcome.COMMIT, TRANSACTION_ROLLBACK_TYPE: Outcome.ROLLBACK}


@serves(requests.messages.END_TRANSACTION)
def end_transaction(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(EndTransactionRequestHeader)
    outcome = _OUTCOMES.get(header.commit_or_rollback)
    if outcome is None and header.commit_or_rollback != TRANSACTION_NOT_TYPE:
        remark = (
            f"commitOrRollback is {header.commit_or_rollback}, 0 (unknown), 8 (commit) and 12 (rollback) are allowed"
        )
        return _refused(broker, connection, command, header, ResponseCode.SYSTEM_ERROR, remark)
    if outcome is None:
        log.info("%s does not know yet how transaction %s ends", connection.remote_address, header.transaction_id)
        return None
    half = broker.transactions.half_at(header.commit_log_offset)
    if half is None:
        remark = f"no half message begins at commit log offset {header.commit_log_offset}, or it expired"
        return _refused(broker, connection, command, header, ResponseCode.SYSTEM_ERROR, remark)
    raw = half.raw_properties
    immunity = props.get_property(raw, props.CHECK_IMMUNITY_TIME_IN_SECONDS)
    age_ms = now_ms - half.born_timestamp_ms
    if not header.from_transaction_check and broker.transactions.rules.is_end_too_late(age_ms, immunity):
        remark = f"the transaction is {age_ms} ms old, past its CHECK_IMMUNITY_TIME_IN_SECONDS {immunity}; wait for the check"
        return _refused(broker, connection, command, header, ResponseCode.ILLEGAL_OPERATION, remark)
    if props.get_property(raw, props.PGROUP) != header.producer_group:
        remark = f"the half message is not of producer group {header.producer_group}"
        return _refused(broker, connection, command, header, ResponseCode.SYSTEM_ERROR, remark)
    if half.queue_offset != header.tran_state_table_offset:
        remark = f"the half message is at half queue offset {half.queue_offset}, not {header.tran_state_table_offset}"
        return _refused(broker, connection, command, header, ResponseCode.SYSTEM_ERROR, remark)
    before = broker.transactions.end(half, outcome, now_ms)
    if before not in (None, outcome, Outcome.UNKNOWN):
        remark = f"the transaction ended with {before.value} already, {outcome.value} comes too late"
        return _refused(broker, connection, command, header, ResponseCode.SYSTEM_ERROR, remark)
    if command.is_oneway:
        return None
    return broker.answer_when_durable(connection, command, response(command), broker.store.max_physical_offset, True)


def _refused(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: EndTransactionRequestHeader,
    code: int,
    remark: str,
) -> Command:
    # Clients send it one-way, so the refusal is only in the log.
    sentence, address = "%s could not end transaction %s: %s", connection.remote_address
    broker.troubles.failed("ends", sentence, address, header.transaction_id, remark, of=header.producer_group or "")
    return response(command, code, remark)


@serves(requests.messages.RESUME_CHECK_HALF_MESSAGE)
def resume_check(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(ResumeCheckHalfMessageRequestHeader)
    try:
        _, offset = decode_offset_message_id(header.msg_id)
    except ConfigurationError as error:
        return response(command, ResponseCode.SYSTEM_ERROR, str(error))
    record = broker.store.view_at(offset)
    if record is None or record.topic_bytes != TRANS_CHECK_MAX_TIME_TOPIC.encode():
        remark = f"{header.msg_id} is no half message of {TRANS_CHECK_MAX_TIME_TOPIC}; only those are resumed"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    broker.transactions.resume(record, now_ms)
    return broker.answer_when_durable(connection, command, response(command), broker.store.max_physical_offset, True)
