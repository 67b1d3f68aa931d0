# SPDX-License-Identifier: Apache-2.0
"""Half messages wait until their producers end them; the broker asks a producer that does not (Java: TransactionalMessageServiceImpl).

    send with TRAN_MSG --> RMQ_SYS_TRANS_HALF_TOPIC queue 0; REAL_TOPIC and REAL_QID keep the destination
    END_TRANSACTION commit   --> a record in the real topic, then an op message: RMQ_SYS_TRANS_OP_HALF_TOPIC, tag d, body = half offset
    END_TRANSACTION rollback --> an op message
    every transactionCheckInterval --> a round over the open half messages: core.transaction_check decides about each

Progress is kept as in Apache, as offsets of CID_RMQ_SYS_TRANS; an op message names one half message without a comma, as 4.9 and 5.x both
read it. So a store with open transactions can move to an Apache broker and back. A kill between two steps commits nothing twice: after the
record of a commit, which is the last one then, the next start writes the op message; after a copy it goes on with the copy.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.delivery.waiting_records import destination
from sprocketmq.broker.redirection import copy_of_record, redirect
from sprocketmq.broker.service import Periodic
from sprocketmq.core.resource_names import HALF_TOPIC, OP_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, TRANSACTION_GROUP
from sprocketmq.core.timer_schedule import java_long
from sprocketmq.core.transactions.transaction_check import (
    CheckRules,
    Outcome,
    TransactionId,
    TransactionTable,
    Verdict,
    half_offsets_of_op,
    judge,
)
from sprocketmq.errors import RocketMQError
from sprocketmq.net.process.clock import Timer
from sprocketmq.store import AppendResult, StoredMessage
from sprocketmq.wire import requests
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.headers import CheckTransactionStateRequestHeader
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.record import RecordView, encode_record
from sprocketmq.wire.records.sys_flag import (
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_NOT_TYPE,
    transaction_type,
    with_transaction_type,
)

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

OP_TAG: Final = "d"
# Our property of an op message: its half has a newer copy. Without it the next start would treat the mark of an older copy as the end of
# the transaction, and so would an END that names that copy. Apache ignores it and only has to know that the half is done.
SET_ASIDE: Final = "SPROCKET_SET_ASIDE"
_OP_MARKS: Final = props.encode_properties({props.TAGS: OP_TAG})
_SET_ASIDE_MARKS: Final = props.encode_properties({props.TAGS: OP_TAG, SET_ASIDE: "true"})
_OP_TAGS_CODE: Final = tags_code(OP_TAG)
_UNIQ_KEY: Final = props.UNIQ_KEY.encode()
_MOST_ADDED_BYTES: Final = 1_024  # to a committed message that cannot be delivered and is set aside
_HOUR_MS: Final = 3_600_000
_OPEN_PER_TURN: Final = 64  # half messages that are checked between two returns to the loop
_DONE_PER_TURN: Final = 20_000  # settled half messages that are skipped between two of them; they cost very little
_SCAN_UNITS: Final = 512
# The extra length of a copy: TRANSACTION_CHECK_TIMES and TRAN_PREPARED_QUEUE_OFFSET, each with a Long.
MAX_HALF_PROPERTIES_BYTES: Final = props.MAX_PROPERTIES_BYTES - 2 * (len("TRAN_PREPARED_QUEUE_OFFSET") + 1 + 20 + 1)
_COPY_MARKS: Final = (b"TRANSACTION_CHECK_TIMES\x01", b"TRAN_PREPARED_QUEUE_OFFSET\x01")
_HALF_TOPIC_BYTES: Final = HALF_TOPIC.encode()


class Transactions:
    def __init__(self, broker: Broker) -> None:
        self._broker, self._clock, self._store = broker, broker.clock, broker.store
        self._offsets, self._undeliverable = broker.offsets, broker.undeliverable
        self._table = TransactionTable(0, 0)
        self._periodic: Periodic | None = None
        self._troubles = broker.troubles
        self._round: tuple[int, int] | None = None  # begin of the running round, and the half offset at which it ends
        self._next_turn: Timer | None = None
        self.ended: Counter[Outcome] = Counter()  # since the start

    @property
    def open_count(self) -> int:
        return self._table.open_halves(self._store.max_offset(HALF_TOPIC, 0))

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._read_queues()
        interval_ms = self._broker.config.transaction_check_interval_ms
        self._periodic = Periodic(self._clock, interval_ms, self._begin_round)

    async def stop(self) -> None:
        if self._periodic is not None:
            self._periodic.cancel()
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._round = None

    def _read_queues(self) -> None:
        store = self._store
        half_end, op_end = store.max_offset(HALF_TOPIC, 0), store.max_offset(OP_TOPIC, 0)
        self._table = table = TransactionTable(self._stored_progress(HALF_TOPIC), self._stored_progress(OP_TOPIC))
        offset = max(store.min_offset(OP_TOPIC, 0), min(table.op_progress, op_end - table.remembered))
        for at, op in self._records(OP_TOPIC, offset, op_end):
            if op is None:
                table.found_op(at, [], half_end)
            else:
                set_aside = props.get_property(op.raw_properties, SET_ASIDE) is not None
                table.found_op(at, half_offsets_of_op(bytes(op.body)), half_end, set_aside=set_aside)
        self._read_halves(half_end)
        self._finish_cut_off_commit()
        self._mark_superseded()
        if table.half_progress < half_end:
            log.info("half messages %d to %d are checked in the next round", table.half_progress, half_end - 1)
        self._save_progress()

    def _read_halves(self, half_end: int) -> None:
        table = self._table
        seen: dict[TransactionId, list[int]] = {}
        for offset, half in self._records(HALF_TOPIC, table.half_progress, half_end):
            if half is None:
                continue
            is_copy = any(mark in half.raw_properties for mark in _COPY_MARKS)
            if is_copy or not table.is_settled(offset):
                transaction = _transaction_id(half)
                older = seen.setdefault(transaction, [])
                table.found_half(offset, transaction, is_copy=is_copy, older=older)
                older.append(offset)

    def _records(self, topic: str, begin: int, end: int) -> Iterator[tuple[int, RecordView | None]]:
        """The entries of a queue by their offsets; None: the record is not there."""
        while begin < end and (units := self._store.units(topic, 0, begin, min(_SCAN_UNITS, end - begin))):
            for unit in units:
                yield unit.queue_offset, self._store.view_at(unit.physical_offset)
            begin = units[-1].queue_offset + 1

    def _mark_superseded(self) -> None:
        """Mark half messages that have newer copies: progress on the disk was behind the last round."""
        for offset in self._table.superseded:
            half = self._half_in_queue(offset)
            if half is not None:
                self._try_mark(offset, _transaction_id(half), self._clock.now_ms(), set_aside=True)

    def _half_in_queue(self, offset: int) -> RecordView | None:
        units = self._store.units(HALF_TOPIC, 0, offset, 1)
        is_there = bool(units) and units[0].queue_offset == offset
        return self._store.view_at(units[0].physical_offset) if is_there else None

    def _stored_progress(self, topic: str) -> int:
        return self._store.nearest_offset(topic, 0, self._offsets.query(TRANSACTION_GROUP, topic, 0))

    def _finish_cut_off_commit(self) -> None:
        """Write the op message of a commit that a kill interrupted: then the record of the commit is the last one of the log."""
        store = self._store
        last: RecordView | None = None
        for topic, queue_id in store.queues():
            units = store.units(topic, queue_id, store.max_offset(topic, queue_id) - 1, 1)
            if units and (last is None or units[0].physical_offset > last.physical_offset):
                last = store.view_at(units[0].physical_offset) or last
        if last is None or transaction_type(last.sys_flag) != TRANSACTION_COMMIT_TYPE:
            return
        half = self.half_at(last.prepared_transaction_offset)
        if half is None:
            return
        transaction = _transaction_id(half)
        settlement = self._table.settlement(half.queue_offset, transaction)
        if settlement.before is None and settlement.offset is not None:
            log.info("the commit of half message %d was cut off; its mark is written now", half.queue_offset)
            self._table.ended(transaction, Outcome.COMMIT)
            self._try_mark(settlement.offset, transaction, self._clock.now_ms())

    # -- half messages and their end -----------------------------------------------------------------------------------------------

    def prepare(self, message: StoredMessage) -> None:
        """Redirect ``message`` into the half queue; the caller then stores it as usual. Java: parseHalfMessageInner."""
        # A transaction is never delayed: clients remove the level themselves, and Apache loses a half message that still has one.
        raw = props.remove_property(message.properties, props.DELAY)
        unique_key = props.get_property(raw, props.UNIQ_KEY)
        if unique_key is not None:
            raw = props.set_property(raw, props.TRANSACTION_ID, unique_key)
        message.sys_flag = with_transaction_type(message.sys_flag, TRANSACTION_NOT_TYPE)
        redirect(message, raw, HALF_TOPIC, 0)

    def half_at(self, physical_offset: int) -> RecordView | None:
        """The half message whose record begins there; None if there is no record or another one."""
        record = self._store.view_at(physical_offset)
        return record if record is not None and record.topic_bytes == _HALF_TOPIC_BYTES else None

    @property
    def rules(self) -> CheckRules:
        config = self._broker.config
        return CheckRules(
            config.transaction_timeout_ms, config.transaction_check_max, config.file_reserved_time * _HOUR_MS
        )

    def end(self, half: RecordView, outcome: Outcome, now_ms: int) -> Outcome | None:
        """End the transaction of ``half``: a commit stores its message. Returns how it ended before; None if this is its first end, the
        only one that counts (core.transaction_check). Raises StoreError: the message could not be stored; nothing has changed."""
        transaction = _transaction_id(half)
        settlement = self._table.settlement(half.queue_offset, transaction)
        if settlement.before is None:
            if outcome is Outcome.COMMIT:
                # A commit without its mark would be made again after a kill.
                self._store.make_room(self._mark_of(half.queue_offset, now_ms), half.size + _MOST_ADDED_BYTES)
                self._undeliverable.deliver(_committed(half), now_ms)
            self._table.ended(transaction, outcome)
            self.ended[outcome] += 1
        if settlement.offset is not None:
            self._try_mark(settlement.offset, transaction, now_ms)
        return settlement.before

    def resume(self, record: RecordView, now_ms: int) -> None:
        """Store a discarded half message again, as if it had never been checked. Raises as ``Broker.put``."""
        raw = props.set_property(record.raw_properties, props.TRANSACTION_CHECK_TIMES, "0")
        copy_offset = self._broker.put(_copy(record, HALF_TOPIC, raw), now_ms, is_new=False).queue_offset
        self._table.copied(-1, _transaction_id(record), copy_offset)

    def _try_mark(self, half_offset: int, transaction: TransactionId, now_ms: int, *, set_aside: bool = False) -> None:
        try:
            self._mark(half_offset, transaction, now_ms, set_aside=set_aside)
        except RocketMQError as error:  # the transaction stays ended: the next round writes the mark
            sentence = "half message %d is ended, but its mark could not be written: %s"
            self._troubles.failed("marks", sentence, half_offset, error, level=logging.ERROR)

    def _mark(self, half_offset: int, transaction: TransactionId, now_ms: int, *, set_aside: bool = False) -> None:
        """Write the op message that marks the half message at ``half_offset`` as settled; with ``set_aside`` its transaction stays open."""
        message = self._mark_of(half_offset, now_ms, _SET_ASIDE_MARKS if set_aside else _OP_MARKS)
        op_offset = self._broker.put(message, now_ms).queue_offset
        self._table.marked(half_offset, transaction, op_offset, set_aside=set_aside)

    def _mark_of(self, half_offset: int, now_ms: int, marks: bytes = _OP_MARKS) -> StoredMessage:
        identity = self._broker.identity
        return StoredMessage(
            OP_TOPIC,
            0,
            b"%d" % half_offset,
            b"%b%b\x01%b\x02" % (marks, _UNIQ_KEY, identity.new_unique_key(now_ms).encode()),
            born_timestamp_ms=now_ms,
            born_host=identity.host,
            store_host=identity.host,
            tags_code=_OP_TAGS_CODE,
        )

    # -- check rounds ----------------------------------------------------------------------------------------------------------------

    def _begin_round(self) -> None:
        if self._round is not None:  # the last one still runs: so many are open
            return
        store, table = self._store, self._table
        table.move_to(store.min_offset(HALF_TOPIC, 0))
        self._round = (self._clock.now_ms(), store.max_offset(HALF_TOPIC, 0))
        self._turn()

    def _turn(self) -> None:
        self._next_turn = None
        if self._round is None:
            return
        try:
            finished = self._check_some(*self._round)
        except RocketMQError as error:  # no space: the halves stay where they are
            sentence = "the check of half messages is interrupted until the next round: %s"
            self._troubles.failed("checks", sentence, error, level=logging.ERROR)
            finished = True
        self._save_progress()
        if finished:
            self._round = None
            # At once: after an earlier kill, half messages and their copies would be ahead of progress.
            self._broker.config_store.save_offsets()
        else:
            self._next_turn = self._clock.call_later(0, self._turn)

    def _check_some(self, round_ms: int, end: int) -> bool:
        table = self._table
        for _ in range(_OPEN_PER_TURN):
            offset = table.next_open(end, _DONE_PER_TURN)
            if offset is None:
                return table.half_progress >= end
            half = self._half_in_queue(offset)
            if half is None:
                table.gone(offset)
            elif self._check_one(half, round_ms) is Verdict.WAIT:
                return True
        return False

    def _check_one(self, half: RecordView, round_ms: int) -> Verdict | None:
        offset, transaction, now_ms = half.queue_offset, _transaction_id(half), self._clock.now_ms()
        if self._table.is_ended(transaction):
            self._mark(offset, transaction, now_ms)
            return None
        raw = half.raw_properties
        check_times = props.get_property(raw, props.TRANSACTION_CHECK_TIMES)
        verdict = judge(
            self.rules,
            now_ms=now_ms,
            believed_ms=self._broker.expiry_clock.now_ms(),
            round_ms=round_ms,
            born_timestamp_ms=half.born_timestamp_ms,
            store_timestamp_ms=half.store_timestamp_ms,
            check_times=check_times,
            immunity=props.get_property(raw, props.CHECK_IMMUNITY_TIME_IN_SECONDS),
        )
        if verdict is Verdict.DISCARD:
            self._discard(half, transaction, now_ms)
        elif verdict is Verdict.PUT_BACK:
            first = props.get_property(raw, props.TRAN_PREPARED_QUEUE_OFFSET) or str(offset)
            raw = props.set_property(raw, props.TRAN_PREPARED_QUEUE_OFFSET, first)
            self._store_copy(half, transaction, raw, now_ms)
        elif verdict is Verdict.CHECK:
            times = max(java_long(check_times or "") or 0, 0) + 1
            raw = props.set_property(raw, props.TRANSACTION_CHECK_TIMES, str(times))
            copied = self._store_copy(half, transaction, raw, now_ms)
            if copied is not None:
                self._ask(half, raw, copied.queue_offset, copied.physical_offset)
        return verdict

    def _store_copy(self, half: RecordView, transaction: TransactionId, raw: bytes, now_ms: int) -> AppendResult | None:
        """Store a half message again, with other properties. None: that is impossible; it is discarded like one that was checked too
        often."""
        copied = self._undeliverable.put(_copy(half, HALF_TOPIC, raw), now_ms)
        if copied is None:
            self._table.discarded(half.queue_offset, transaction)
        else:
            self._table.copied(half.queue_offset, transaction, copied.queue_offset)
        return copied

    def _discard(self, half: RecordView, transaction: TransactionId, now_ms: int) -> None:
        self._troubles.failed(
            "given up",
            "half message %d (%s, for %s) was checked too often or is too old; it goes to %s",
            half.queue_offset,
            props.get_property(half.raw_properties, props.UNIQ_KEY),
            props.get_property(half.raw_properties, props.REAL_TOPIC),
            TRANS_CHECK_MAX_TIME_TOPIC,
            level=logging.ERROR,
        )
        topic = self._broker.topics.create_if_absent(TRANS_CHECK_MAX_TIME_TOPIC, 1, now_ms).topic_name
        self._undeliverable.put(_copy(half, topic, half.raw_properties), now_ms)
        self._table.discarded(half.queue_offset, transaction)

    def _ask(self, half: RecordView, raw: bytes, queue_offset: int, physical_offset: int) -> None:
        """Send CHECK_TRANSACTION_STATE to one member of the producer group. Java: sendCheckMessage."""
        group = props.get_property(raw, props.PGROUP) or ""
        topic, queue_id = destination(raw)
        connection = self._broker.producers.available(group, lambda peer: self._broker.may_send(peer, topic))
        if connection is None:
            sentence = "no member of producer group %s is online for the check-back of half message %d"
            self._troubles.failed("offline", sentence, group, queue_offset, of=group)
            return
        if connection.is_congested:
            sentence, address = (
                "%s does not read, so it gets no check-back of half message %d",
                connection.remote_address,
            )
            self._troubles.failed("congested", sentence, address, queue_offset, of=address)
            return
        unique_key = props.get_property(raw, props.UNIQ_KEY)
        header = CheckTransactionStateRequestHeader(
            tran_state_table_offset=queue_offset,
            commit_log_offset=physical_offset,
            msg_id=unique_key,
            transaction_id=unique_key,
            offset_msg_id=self._broker.identity.offset_message_id(physical_offset),
            topic=HALF_TOPIC,
            bname=self._broker.config.broker_name,
        )
        body = encode_record(
            topic.encode(),
            half.body,
            raw,
            queue_id=queue_id,
            queue_offset=queue_offset,
            physical_offset=physical_offset,
            born_timestamp_ms=half.born_timestamp_ms,
            born_host=half.born_host,
            store_timestamp_ms=half.store_timestamp_ms,
            store_host=half.store_host,
            flag=half.flag,
            sys_flag=half.sys_flag,
            reconsume_times=half.reconsume_times,
        )
        connection.push(requests.messages.CHECK_TRANSACTION_STATE.command(header, body, oneway=True))

    def _save_progress(self) -> None:
        offsets, table = self._offsets, self._table
        for topic, offset in ((HALF_TOPIC, table.half_progress), (OP_TOPIC, table.op_progress)):
            # As in Java: a broker without transactions writes nothing about them into its files.
            if offset > max(0, offsets.query(TRANSACTION_GROUP, topic, 0)):
                offsets.commit(TRANSACTION_GROUP, topic, 0, offset)


def _transaction_id(half: RecordView) -> TransactionId:
    raw = half.raw_properties
    return TransactionId.of(
        props.get_property(raw, props.UNIQ_KEY) or "",
        half.born_timestamp_ms,
        half.born_host,
        props.get_property(raw, props.REAL_TOPIC) or "",
        half.body_crc,
    )


def _copy(record: RecordView, topic: str, raw: bytes) -> StoredMessage:
    """The message of a half message for another place. Java loses the application's flag here, we do not."""
    return copy_of_record(record, topic, raw, record.store_host)


def _committed(half: RecordView) -> StoredMessage:
    """The message for its real topic. TRAN_MSG stays in the properties; REAL_TOPIC and REAL_QID do not, as in 5.4.0 (4.9 leaves them)."""
    topic, queue_id = destination(half.raw_properties)
    raw = props.remove_property(props.remove_property(half.raw_properties, props.REAL_TOPIC), props.REAL_QID)
    message = _copy(half, topic, raw)
    message.queue_id = queue_id
    message.sys_flag = with_transaction_type(half.sys_flag, TRANSACTION_COMMIT_TYPE)
    message.prepared_transaction_offset = half.physical_offset
    return message
