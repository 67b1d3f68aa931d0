"""Half messages of a Spark write: sent by a task, remembered in few bytes, ended by the driver.

    task      rows --HalfSender--> halves, each named attempt/number/try;  lanes (where they lie) --commit message--> driver
    driver    lanes --end_lane--> END_TRANSACTION, answered; what is too old for it (core.decision_ledger) waits for the broker's check

Laws
1. A send without an answer may have stored a half: its name is in ``lost``, and the row is sent again under another try and another key.
2. Halves of one queue that rows were bound to are ended one after the other, in the order of the task's rows; when one is left to the
   check, those behind it are, too.
3. An END that was not answered with success is not told again by the driver: the broker asks when it did not arrive.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sprocketmq.client.api import RemotingApi
from sprocketmq.client.results import SendResult, SendStatus
from sprocketmq.client.transaction_producer import AsyncTransactionProducer
from sprocketmq.core.decision_ledger import can_end_directly
from sprocketmq.core.open_transactions import HalfPlace, LocalTransactionState
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout, RocketMQError, SystemBusy
from sprocketmq.spark.options import SinkOptions
from sprocketmq.spark.responder import ATTEMPT, SEQUENCE, TRY, half_name
from sprocketmq.spark.row_messages import OutgoingRow
from sprocketmq.spark.row_sender import RowSender
from sprocketmq.wire import properties as props
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import request
from sprocketmq.wire.headers import EndTransactionRequestHeader
from sprocketmq.wire.message import MessageQueue

__all__ = ["Half", "HalfLane", "HalfSender", "end_lane"]

_ENDS_IN_FLIGHT: Final = 256
_END_TIMEOUT_MS: Final = 3_000
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
_NUMBERS: Final = 3
# A task whose sends so often go unanswered had better run again than fill the ledger.
_MOST_LOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Half:
    """Where a half message lies, and when (this machine's clock) its send began."""

    queue_offset: int
    commit_log_offset: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class HalfLane:
    """Halves on one broker: of one queue in the order of rows (``in_order``), or any. Small: eight bytes a half, or less."""

    topic: str
    broker_name: str
    in_order: bool
    packed: bytes

    @classmethod
    def of(cls, topic: str, broker_name: str, in_order: bool, halves: Iterable[Half]) -> HalfLane:
        """Numbers are noted as differences to those before, which are small."""
        numbers = array("q")
        before = (0, 0, 0)
        for half in halves:
            now = (half.queue_offset, half.commit_log_offset, half.sent_ms)
            numbers.extend(new - old for new, old in zip(now, before, strict=True))
            before = now
        return cls(topic, broker_name, in_order, zlib.compress(numbers.tobytes(), 1))

    def __iter__(self) -> Iterator[Half]:
        numbers = array("q")
        numbers.frombytes(zlib.decompress(self.packed))
        place = [0] * _NUMBERS
        for at in range(0, len(numbers), _NUMBERS):
            place = [old + new for old, new in zip(place, numbers[at : at + _NUMBERS], strict=True)]
            yield Half(*place)


class HalfSender(RowSender):
    """Sends the rows of one task attempt as half messages.

    Args:
        options: of the sink.
        producer: started, without retries of its own: each try has a name.
        marks: properties that each message carries.
        attempt: the name of this attempt, which nobody else has.
    """

    def __init__(
        self, options: SinkOptions, producer: AsyncTransactionProducer, marks: dict[str, str], attempt: str
    ) -> None:
        self._transactional = producer
        super().__init__(options)
        self._marks, self._attempt = marks, attempt
        self._halves: dict[tuple[str, str, int], list[Half]] = {}
        self.lost: set[str] = set()

    def _started_producer(self) -> AsyncTransactionProducer:
        return self._transactional

    @property
    def lanes(self) -> list[HalfLane]:
        """Where all halves lie that count."""
        return [
            HalfLane.of(topic, broker_name, queue_id >= 0, halves)
            for (topic, broker_name, queue_id), halves in self._halves.items()
        ]

    async def _send_all(self, rows: Iterable[OutgoingRow]) -> None:
        gate = asyncio.Semaphore(self._options.max_in_flight)
        work = []
        for sequence, row in enumerate(rows, self.sent):
            if row.alone:
                raise ConfigurationError(
                    f"a row for topic {row.message.topic!r} has a delay, which delivery=transactional cannot keep; leave delayLevel and "
                    "deliverTimeMs out, or write these rows with another delivery"
                )
            queue = await self._queue_of(row)
            work.append(self._store(row, queue, sequence, gate))
        # A failure must not leave sends behind that nobody waits for.
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        failures = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                failures.append(outcome)
            else:
                lane, half = outcome
                self._halves.setdefault(lane, []).append(half)
        if failures:
            raise failures[0]

    async def _store(
        self, row: OutgoingRow, queue: MessageQueue | None, sequence: int, gate: asyncio.Semaphore
    ) -> tuple[tuple[str, str, int], Half]:
        message = row.message
        message.properties.update(self._marks)
        message.properties.update({SEQUENCE: str(sequence), ATTEMPT: self._attempt})
        async with gate:
            deadline_s = time.monotonic() + self._options.retry_timeout_ms / 1000
            pause_s = _FIRST_PAUSE_S
            for tried in range(_MOST_LOST):
                if tried:  # another message under another key: whoever is asked about one of them must not answer for the other
                    message.properties[TRY] = str(tried)
                    message.properties.pop(props.UNIQ_KEY, None)
                sent_ms = time.time_ns() // 1_000_000
                try:
                    half, place = await self._transactional.send_prepared(message, queue=queue)
                except (NetworkError, RequestTimeout, RemoteError) as error:
                    if not _passes(error) or time.monotonic() + pause_s > deadline_s:
                        raise
                else:
                    if half.status is SendStatus.SEND_OK:
                        return self._lane_of(row, half), Half(place.queue_offset, place.commit_log_offset, sent_ms)
                    if time.monotonic() + pause_s > deadline_s:
                        raise NetworkError(f"{half.message_queue} stores halves with {half.status.name} only")
                self._note_lost(half_name(self._attempt, str(sequence), str(tried)))
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        raise NetworkError(f"row {sequence} could not be stored in {_MOST_LOST} tries")

    def _note_lost(self, name: str) -> None:
        self.lost.add(name)
        if len(self.lost) > _MOST_LOST:
            raise NetworkError(f"{len(self.lost)} sends of this task were not answered; it had better run again")

    @staticmethod
    def _lane_of(row: OutgoingRow, half: SendResult) -> tuple[str, str, int]:
        bound = row.queue_id >= 0 or row.sharding_key is not None
        queue = half.message_queue
        return row.message.topic, queue.broker_name, queue.queue_id if bound else -1


async def end_lane(
    api: RemotingApi,
    address: str,
    group: str,
    lane: HalfLane,
    state: LocalTransactionState,
    quiet_ms: int | None,
) -> list[Half]:
    """Tell the broker at ``address`` how the halves of ``lane`` end.

    Args:
        quiet_ms: of that broker, see core.decision_ledger; None to end halves of any age (a rollback that comes twice does no harm).

    Returns:
        The halves that are left to the broker's check.
    """

    async def end(half: Half) -> bool:
        age_ms = time.time_ns() // 1_000_000 - half.sent_ms
        if quiet_ms is not None and not can_end_directly(age_ms, quiet_ms):
            return False
        place = HalfPlace(address, half.queue_offset, half.commit_log_offset)
        try:
            return await _told(api, group, lane, place, state)
        except RocketMQError:
            return False

    halves = list(lane)
    if lane.in_order:
        for at, half in enumerate(halves):
            if not await end(half):
                return halves[at:]
        return []
    gate = asyncio.Semaphore(_ENDS_IN_FLIGHT)

    async def gated(half: Half) -> bool:
        async with gate:
            return await end(half)

    left: list[Half] = []
    for part in _parts_of(halves):
        ended = await asyncio.gather(*map(gated, part))
        left += [half for half, done in zip(part, ended, strict=True) if not done]
    return left


def _passes(error: RocketMQError) -> bool:
    """Whether sending again later can help."""
    return not isinstance(error, RemoteError) or isinstance(error, SystemBusy) or error.code in _PASSING


_PASSING: Final = frozenset({ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL})


def _parts_of(halves: Sequence[Half], size: int = 10_000) -> Iterator[Sequence[Half]]:
    for at in range(0, len(halves), size):
        yield halves[at : at + size]


async def _told(api: RemotingApi, group: str, lane: HalfLane, place: HalfPlace, state: LocalTransactionState) -> bool:
    header = EndTransactionRequestHeader(
        producer_group=group,
        tran_state_table_offset=place.queue_offset,
        commit_log_offset=place.commit_log_offset,
        commit_or_rollback=state.sys_flag,
        msg_id=f"{lane.broker_name}:{place.commit_log_offset}",
        topic=lane.topic,
        bname=lane.broker_name,
    )
    answer: Any = await api.invoke(place.broker, request(RequestCode.END_TRANSACTION, header), _END_TIMEOUT_MS)
    return bool(answer.code == ResponseCode.SUCCESS)
