# SPDX-License-Identifier: Apache-2.0
"""Faults that the simulator has to find. Most of them are faults of the past, brought back by the smallest change of today's code.

``planted(fault)`` changes the code of functions in place, so that whoever holds them runs the changed code. ``search(...)`` runs seeds of
the simulator until one fails. ``bench/planted_faults.py`` looks for all of them, the tests for a few that are found quickly.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from sprocketmq.broker import Broker
from sprocketmq.broker.delivery.filters import FilterTable
from sprocketmq.broker.delivery.schedule import ScheduleMessageService
from sprocketmq.broker.delivery.timer_messages import TimerMessages
from sprocketmq.broker.delivery.transactions import Transactions
from sprocketmq.broker.expiry_clock import ExpiryClock
from sprocketmq.broker.replication.durability import DurableAnswers
from sprocketmq.broker.settings.config_store import ConfigStore
from sprocketmq.broker.tables.consumers import ConsumerTable, ProducerTable
from sprocketmq.client.consume.async_push_consumer import AsyncPushConsumer
from sprocketmq.client.consume.pull_loop import PullLoop
from sprocketmq.client.consume.rebalancer import Rebalancer
from sprocketmq.client.consume.running_consumer import RunningConsumer
from sprocketmq.client.consume.send_back import SendBack
from sprocketmq.client.listen import listener_pool
from sprocketmq.client.listen.concurrent_service import OneAtATimeService
from sprocketmq.client.listen.message_stream import DemandPool, MessageStream
from sprocketmq.client.listen.orderly_service import OrderlyService
from sprocketmq.client.produce import request_reply
from sprocketmq.client.produce.batch_accumulator import BatchAccumulator
from sprocketmq.client.remoting import concurrent_work
from sprocketmq.client.remoting.heartbeats import Heartbeats
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.remoting.sender import Sender
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import PullCursor
from sprocketmq.core.consume.queue_lock import LocalQueueLock, QueueLockTable
from sprocketmq.core.long_poll import LongPoll
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.requesting_protocol import RequestingProtocol
from sprocketmq.store import config_files
from sprocketmq.store.disk_message_store import DiskMessageStore
from sprocketmq.store.files import disk_space, mapped_file, mapped_progress
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.files.preallocation import Preallocator
from sprocketmq.store.index.index_file import IndexFile
from sprocketmq.store.index.index_files import IndexFiles
from sprocketmq.store.message_store import MessageStore
from sprocketmq.store.recovery.losses import _Search
from sprocketmq.store.recovery.recovery import Recovery
from sprocketmq.store.services.flush import Flusher
from sprocketmq.store.services.retention import Retention
from sprocketmq.store.timer.timer_files import TimerFiles
from sprocketmq.testing.simulation.__main__ import RUN_LIMIT_S, given_in, run
from sprocketmq.testing.simulation.draws import Draws
from sprocketmq.testing.simulation.forked import outcome_of
from sprocketmq.testing.simulation.world import World


class Edit(NamedTuple):
    """``before`` stands once in the function's source."""

    function: Any
    before: str
    after: str


class Fault(NamedTuple):
    """``origin``: the commit that mended it; empty: made up. ``rule``: the number of the rule in
    ``sprocketmq.testing.simulation.users`` that should find it."""

    part: str
    what: str
    origin: str
    rule: str
    edits: tuple[Edit, ...]
    given: str = ""


def never(function: Any, condition: str) -> Edit:
    return Edit(function, f"if {condition}:", "if False:")


def without(function: Any, statement: str) -> Edit:
    return Edit(function, statement, "pass")


def _fault(about: tuple[str, str, str, str], *edits: Edit, given: str = "") -> Fault:
    return Fault(*about, edits, given)


FAULTS: dict[str, Fault] = {
    # -- sends -----------------------------------------------------------------------------------------------------------------
    "a try has the whole time": _fault(
        ("sends", "each try of a send has the timeout that all of them have together", "e1e984c9", "7"),
        Edit(
            Sender._deliver,
            "self._try(send, target, max(1, left_ms))",
            "self._try(send, target, settings.send_msg_timeout_ms)",
        ),
        never(Sender._deliver, "attempt and end_s <= now_s()"),
    ),
    "futures never end": _fault(
        ("sends", "the futures of a batch that fails never end", "e1e984c9", "7"),
        without(BatchAccumulator._deliver, "fail_all(futures, error.with_traceback(None))"),
    ),
    "no limit for a deaf peer": _fault(
        ("sends", "a request waits without limit for a peer that does not read", "e1e984c9", "7"),
        Edit(RequestingProtocol._wait_for_turn, "self._turns.take(timeout_ms)", "self._turns.take(86_400_000)"),
    ),
    "replies to a dead connection": _fault(
        ("sends", "a reply is pushed to the oldest connection of the requester, which may be dead", "575abe9a", "10"),
        Edit(ProducerTable.find, "(found is None or member.last_update_ms >= found.last_update_ms)", "found is None"),
    ),
    "stored twice": _fault(
        ("broker tables", "a broker stores the third message of each queue twice", "", "1"),
        Edit(
            Broker.put,
            "        store = self.store\n",
            '        store = self.store\n        if message.topic.startswith("topic-") and store.max_offset(message.topic, '
            "message.queue_id) == 2:\n            store.append_again(message, now_ms)\n",
        ),
    ),
    "other bytes come back": _fault(
        ("sends", "a reply lacks its last byte", "", "1"),
        Edit(
            request_reply.reply_message, "body, properties=properties), back", "body[:-1], properties=properties), back"
        ),
    ),
    # -- consumption -----------------------------------------------------------------------------------------------------------
    "progress lost at give-up": _fault(
        (
            "orderly",
            "a queue is given up while its listener runs, and what was finished is not written",
            "acbc78f7",
            "3",
        ),
        Edit(
            Rebalancer._remove,
            "        await self._consumer.offset_store.persist(queue)\n        if self._locks_needed",
            "        if self._locks_needed",
        ),
        Edit(RunningConsumer.persist_offsets, "self.rebalancer.held()", "self.rebalancer.owned()"),
    ),
    "a lock is given away under a listener": _fault(
        ("orderly", "a queue is unlocked while its listener runs", "53059656", "4"),
        never(Rebalancer._remove, "self._locks_needed and process_queue is not None and process_queue.consuming"),
    ),
    "progress of others": _fault(
        (
            "orderly",
            "a member whose lock was away writes its old progress over that of the member between",
            "53059656",
            "5",
        ),
        never(Rebalancer.forget_progress_of_others, "self._locks_needed"),
        never(Rebalancer._granted, "not is_ours"),
        Edit(
            OrderlyService._may_write_progress,
            "return lock.is_ours(self._clock.steady_ms()) and not process_queue.awaits_offset",
            "return lock is not None",
        ),
    ),
    "a full cache keeps the lock out": _fault(
        (
            "orderly",
            "a queue whose cache is full never asks where another member ended, when its lock comes back",
            "71604464",
            "2",
        ),
        never(
            PullCursor._due,
            "self.orderly and self.previously_locked and queue.awaits_offset and queue.lock.is_valid(now_ms)",
        ),
        Edit(
            PullCursor._due, "if not self.previously_locked:", "if not self.previously_locked or queue.awaits_offset:"
        ),
    ),
    "a lock without end": _fault(
        ("orderly", "a member that cannot renew its lock goes on, when the broker has given it away", "", "4"),
        Edit(LocalQueueLock.is_expired, "return now_ms - self.last_lock_ms > LOCAL_LOCK_MAX_LIVE_MS", "return False"),
    ),
    "two owners of a lock": _fault(
        ("orderly", "a broker gives the lock of a queue to whoever asks", "", "4"),
        Edit(QueueLockTable.try_lock, "return False\n        lock.last", "return True\n        lock.last"),
    ),
    "past the lost end": _fault(
        (
            "concurrent",
            "a power cut takes the end of a queue, and the consumer goes on behind what it has pulled and not handled",
            "9af5c3d4",
            "2",
        ),
        never(PullCursor._returned, "event.is_beyond_end and first is not None"),
    ),
    "an iteration ends without a word": _fault(
        ("iterations", "after a start that failed, the next one hands out nothing", "14e9cbbd", "2"),
        Edit(MessageStream.attach, "self._pool, self.is_over = pool, self._is_stopped", "self._pool = pool"),
        Edit(DemandPool.close, "self._stream.close()", "self._stream.stop()"),
    ),
    "odd exceptions lose a message": _fault(
        ("concurrent", "a listener that raises what is no Exception ends its worker", "54a17c36", "2"),
        Edit(OneAtATimeService._call_async, "except BaseException as error:", "except Exception as error:"),
        Edit(OneAtATimeService._call, "except BaseException as error:", "except Exception as error:"),
    ),
    "shutdown waits for itself": _fault(
        ("shutdown", "shutdown() in a listener waits for the listener that called it", "6aabdc06", "7"),
        without(listener_pool.mark_caller, "_caller.set((pool, work))"),
    ),
    "delivered again": _fault(
        ("concurrent", "a listener is called twice for each message", "", "3"),
        Edit(
            OneAtATimeService._call_async,
            "returned = await self._one.listener(message)",
            "await self._one.listener(message)\n            returned = await self._one.listener(message)",
        ),
    ),
    "no pause": _fault(
        ("concurrent", "pause() does nothing", "", "2"),
        without(AsyncPushConsumer.pause, "self._started().paused = True"),
    ),
    "a message is lost in a member": _fault(
        ("concurrent", "a member forgets the fourth message of each queue", "", "2"),
        Edit(
            ProcessQueue.put,
            "if offset > highest:",
            "if offset == 3:\n                continue\n            if offset > highest:",
        ),
    ),
    "a cancelled receive takes its messages": _fault(
        ("iterations", "what a cancelled receive had taken is neither settled nor handed out", "", "2"),
        without(MessageStream.receive, "self.put_back(receiver.got)"),
    ),
    "progress past what runs": _fault(
        ("concurrent", "a finished message counts for all before it", "b2857c6d", "5"),
        Edit(
            ProcessQueue.done,
            "return offsets[0] if offsets else self.max_offset_seen + 1",
            "return message.queue_offset + 1",
        ),
    ),
    "sent back nowhere": _fault(
        ("concurrent", "a failed message counts as sent back, and is not", "", "2"),
        Edit(SendBack._store, "            await self._ask_broker(address, message, delay_level)\n", ""),
    ),
    "a seek goes too far": _fault(
        ("pulls", "a seek goes to the message behind the one that was asked for", "", "5"),
        Edit(
            Rebalancer.seek,
            "self._consumer.start_loop(process_queue, offset)",
            "self._consumer.start_loop(process_queue, offset + 1)",
        ),
    ),
    # -- members and rebalance -------------------------------------------------------------------------------------------------
    "a filter that has left": _fault(
        (
            "rebalance",
            "the filter of a member that came and left stays in force: subVersion is not renewed",
            "e83795df",
            "2",
        ),
        without(RunningConsumer.members_changed, "self.subscriptions[topic] = renewed(subscription, now_ms)"),
        Edit(ConsumerTable.unregister, "group.without(connection)", "()"),
        without(RunningConsumer._raise_versions, "self.unconfirmed.add(topic)"),
        Edit(PullLoop._may_lack_messages, "return passed > count and", "return False and"),
    ),
    "one frozen broker silences heartbeats": _fault(
        ("rebalance", "a heartbeat to a broker that does not answer holds up those to all others", "9dff94a7", "11"),
        Edit(Heartbeats._begin_all, "self.begin(address)", "await asyncio.wait([self.begin(address)])"),
        Edit(Heartbeats._send, "body=self._data().encode())", "body=self._data().encode(), timeout_ms=86_400_000)"),
        never(
            ConnectionPool.close_if_silent,
            "connection.last_read_s <= started_s and connection.now_s() - started_s >= _SILENT_S",
        ),
    ),
    "a storm of requests": _fault(
        ("lifecycle", "a client asks for its routes again and again", "", "8"),
        Edit(
            ClientInstance._start, "routes_ms, routes_ms, self._refresh_routes", "routes_ms, 150, self._refresh_routes"
        ),
    ),
    "who has left is remembered": _fault(
        ("tables", "a broker keeps the producers of a connection that has closed", "", "8"),
        without(ProducerTable.connection_closed, "self.unregister(connection, group)"),
    ),
    "tasks outlive a request": _fault(
        ("lifecycle", "a request to several brokers that fails at one leaves the others running", "2584cf91", "8"),
        Edit(
            concurrent_work.all_ended,
            "await asyncio.gather(*ends, return_exceptions=True)",
            "await asyncio.gather(*ends)",
        ),
    ),
    # -- transactions ----------------------------------------------------------------------------------------------------------
    "rolled back is visible": _fault(
        ("transactions", "a rollback stores the message", "", "2"),
        Edit(Transactions.end, "if outcome is Outcome.COMMIT:", "if True:"),
    ),
    "half messages in a power cut": _fault(
        (
            "transactions",
            "the progress of transactions is on the disk before the copies that it has passed",
            "d03434ff",
            "12",
        ),
        Edit(
            ConfigStore._save_progress,
            "self._store.when_durable(self._store.max_physical_offset)",
            'self._store.when_durable(0 if b"CID_RMQ_SYS_TRANS" in text else self._store.max_physical_offset)',
        ),
    ),
    "set aside means ended": _fault(
        (
            "transactions",
            "after a kill, a half message that was set aside for its newer copy counts as ended",
            "f366f27c",
            "2",
        ),
        Edit(
            Transactions._read_queues,
            "set_aside = props.get_property(op.raw_properties, SET_ASIDE) is not None",
            "set_aside = False",
        ),
    ),
    "a clock gives up half messages": _fault(
        ("transactions", "a clock that is set forward makes every half message too old", "d68ecbd8", "2"),
        Edit(ExpiryClock.now_ms, "if now_ms <= steady_ms + _LARGEST_JUMP_MS:", "if True:"),
    ),
    # -- delays and timers -----------------------------------------------------------------------------------------------------
    "too early": _fault(
        ("delays", "each delayed message is due at once", "", "2"),
        Edit(ScheduleMessageService._latest_due_ms, "return self.levels", "return 0 and self.levels"),
    ),
    "delays come again": _fault(
        (
            "delays",
            "after a kill, delayed messages that were delivered since the last save come again",
            "28e3e1e4",
            "1",
        ),
        never(ScheduleMessageService.start, "offset > self._progress.get(level, 0)"),
    ),
    "a delayed message is skipped": _fault(
        ("delays", "after a restart, delay levels begin one message later", "", "2"),
        Edit(
            ScheduleMessageService.load,
            "self._progress, self._copies_before = dict(content.offset_table), content.copies_before",
            "self._copies_before = content.copies_before\n        self._progress = "
            "{level: offset + 1 for level, offset in content.offset_table.items()}",
        ),
    ),
    "one message blocks its level": _fault(
        ("delays", "a delayed message that cannot be delivered holds up all behind it", "d03434ff", "16"),
        Edit(ScheduleMessageService._deliver, "self._undeliverable.deliver(", "self._undeliverable._broker.put("),
    ),
    "a late timer message comes twice": _fault(
        ("timers", "after a power cut, a timer message that was late is delivered once more", "7caf9df2", "1"),
        Edit(
            TimerFiles._find_queue_offset, "if newest is None or check.copies_before is not None:", "if newest is None:"
        ),
    ),
    "a recall does nothing": _fault(
        ("timers", "a recalled message is delivered", "", "2"), never(TimerMessages._deliver_one, "keys")
    ),
    "live progress outlives a power cut": _fault(
        ("timers", "the timers' progress in the page cache is trusted by a start after a power cut", "92b629eb", "1"),
        Edit(
            mapped_progress.file_mark,
            "return None if boot is None else hashlib.sha256(boot + _identity(file)).digest()[:16]",
            "return bytes(16)",
        ),
    ),
    # -- long polling and filters ----------------------------------------------------------------------------------------------
    "a waiting pull sleeps on": _fault(
        (
            "long polling",
            "a message that arrives while the waiting pulls of its queue are looked at wakes nobody",
            "",
            "13",
        ),
        Edit(
            LongPoll.wake,
            "if max_offset <= pull.offset or not pull.parked:",
            "if max_offset <= pull.offset + 1 or not pull.parked:",
        ),
    ),
    "a refused filter lets all pass": _fault(
        ("filters", "an SQL92 filter lets every message pass", "", "2"),
        Edit(
            FilterTable.compiled,
            "        if isinstance(known, str):",
            "        return lambda record: True\n        if isinstance(known, str):",
        ),
    ),
    # -- the log ---------------------------------------------------------------------------------------------------------------
    "zeros over records": _fault(
        (
            "append",
            "zeros that reserve space are written over records that were acknowledged meanwhile",
            "bc0d94ed",
            "1",
        ),
        Edit(
            Preallocator._take,
            "if self._pending is not None:",
            "if self._pending is not None and self._pending[2].done():",
        ),
    ),
    "a short write is taken for whole": _fault(
        (
            "append",
            "space is reserved by a write that took only a part of its zeros: a full disk ends the process",
            "d03434ff",
            "14",
        ),
        Edit(
            disk_space.write_zeros,
            "at += os.write(fd, _ZEROS[: min(piece_bytes, end - at)])",
            "os.write(fd, _ZEROS[: min(piece_bytes, end - at)])\n            at += min(piece_bytes, end - at)",
        ),
    ),
    "answered before the sync": _fault(
        ("flush", "SYNC_FLUSH answers do not wait for the disk", "", "1"),
        Edit(Flusher.when_durable, "elif physical_offset <= self.flushed_offset:", "elif True:"),
    ),
    "a failed sync is tried again": _fault(
        (
            "flush",
            "a sync that failed is tried again, and succeeds without the pages that the kernel has dropped",
            "50784eb3",
            "1",
        ),
        Edit(
            MappedFile.sync,
            "        sync_path(self.path)",
            "        try:\n            sync_path(self.path)\n        except OSError:\n            sync_path(self.path)",
        ),
    ),
    "the end is read after the sync": _fault(
        ("flush", "what is appended during a sync counts as synced", "", "1"),
        Edit(Flusher._sync_log, "self.flushed_offset = end\n", "self.flushed_offset = self._log.max_offset\n"),
    ),
    "names are not synced": _fault(
        ("flush", "the names of new files are not on the disk", "13c11ae3", "1"),
        Edit(mapped_file.sync_directory, 'if os.name == "nt":', "if True:"),
    ),
    "what a killed process wrote is synced": _fault(
        ("recovery", "a start takes what it finds in the page cache for synced", "13c11ae3", "1"),
        Edit(
            DiskMessageStore._open_files,
            "self.commit_log.max_offset if is_flushed else self.recovery.begin",
            "self.commit_log.max_offset",
        ),
    ),
    "a file made in advance ends the start": _fault(
        ("recovery", "a start after a power cut unpacks an entry of a queue file that has none", "e963b2ac", "9"),
        never(_Search._queue_fault, "offset > last"),
    ),
    "lost entries are not rebuilt": _fault(
        ("recovery", "queue entries that a power cut took are not made from the log again", "", "2"),
        Edit(Recovery._put, "    place = record", "    return True\n        place = record"),
    ),
    "expired is taken for damaged": _fault(
        ("recovery", "entries of expired messages are taken for damaged ones, and come back", "ee3fb27e", "15"),
        without(MessageStore.units, "offset = max(offset, queue.min_offset)"),
    ),
    "a loss is not said": _fault(
        ("recovery", "a start says nothing of messages that did not reach the disk", "93a18984", "15"),
        never(Recovery.run, "self._losses.stop is Stop.CRASHED"),
    ),
    # -- tables, index, retention ----------------------------------------------------------------------------------------------
    "progress before the log": _fault(
        (
            "progress files",
            "the progress of groups is on the disk before the messages that it counts",
            "d03434ff",
            "12",
        ),
        Edit(
            ConfigStore._save_progress,
            "self._store.when_durable(self._store.max_physical_offset)",
            "self._store.when_durable(0)",
        ),
    ),
    "a table's name is away": _fault(
        ("progress files", "while a table is replaced, its name is away", "e74f1332", "16"),
        Edit(config_files._keep, "os.link(target, old)", "os.replace(target, old)"),
    ),
    "a change is answered before it is saved": _fault(
        ("broker tables", "a change of a topic is acknowledged before it is written", "d03434ff", "16"),
        Edit(
            ConfigStore.when_saved,
            "for table in self._tables:\n            table.when_saved(",
            "for table in self._tables:\n            (lambda report: report(None))(",
        ),
    ),
    "risen from the dead": _fault(
        ("broker tables", "a deleted topic that is created again has its old messages after a kill", "80a0b6fc", "16"),
        Edit(ConfigStore.__init__, "(self._deleted_file, self._topics.deleted_content),", "None,"),
    ),
    "the index is trusted after a crash": _fault(
        ("index", "entries of the index that a power cut tore are trusted", "d03434ff", "1"),
        Edit(
            IndexFiles._durable_count,
            "durable, counted = self._durable",
            "return None\n        durable, counted = self._durable",
        ),
    ),
    "a repair of the index keeps a deleted file": _fault(
        ("index", "a repair of the index that fails midway leaves a deleted file in its list", "23bcbeee", "9"),
        Edit(IndexFiles.make_ready, "self.files.remove(file)", "file"),
        Edit(
            IndexFiles.make_ready,
            "self._needs_repair = False",
            "self.files = [file for file in self.files if file.header.index_count > 1]\n        self._needs_repair = False",
        ),
    ),
    "the index is not synced again": _fault(
        ("index", "index entries that a killed process wrote are not synced by the next one", "0de6ea69", "1"),
        Edit(IndexFile.load, "self.header = header", "self.header = self.synced = header"),
        Edit(
            IndexFile.sync,
            "if self.path is None or changes == self.synced_changes:",
            "if self.path is None or self.header == getattr(self, 'synced', None):",
        ),
        Edit(
            IndexFile.sync, "self.synced_changes = changes", "self.synced_changes, self.synced = changes, self.header"
        ),
    ),
    "one file too many expires": _fault(
        ("retention", "the file of the log that is being written is deleted, when the next one is there", "", "15"),
        never(Retention.clean, "files.files[1].start > self._store.commit_log.start"),
    ),
    # -- connections -----------------------------------------------------------------------------------------------------------
    "a silent connection is kept": _fault(
        ("connections", "a connection on which nothing arrives any more is never given up", "e1e984c9", "10"),
        never(
            ConnectionPool.close_if_silent,
            "connection.last_read_s <= started_s and connection.now_s() - started_s >= _SILENT_S",
        ),
    ),
    "a request is lost behind a deaf peer": _fault(
        ("connections", "while a peer does not read, one of its requests is dropped", "", "18"),
        Edit(
            Connection._handle_frames,
            "self._keep_unhandled(whole, spans[spans.index((at, stop, word)) :])",
            "self._keep_unhandled(whole, spans[spans.index((at, stop, word)) + 1 :])",
        ),
    ),
    "a timer for no time": _fault(
        ("flush", "the limit of a SYNC_FLUSH answer is set again and again for no time", "1e3fe05f", "9"),
        Edit(DurableAnswers.wait, "connection.now_s() + limit_s", "connection.now_s()"),
        Edit(DurableAnswers.wait, "call_at(waiting[0][3], ", "call_at(waiting[0][3] + limit_s, "),
        Edit(
            DurableAnswers._time_out,
            "loop.time() >= self._waiting[0][3]",
            "loop.time() - self._waiting[0][3] >= (3.0 if self._waiting[0][5] else self._timeout_s)",
        ),
        Edit(
            DurableAnswers._time_out,
            "loop.call_at(self._waiting[0][3], ",
            "loop.call_at(self._waiting[0][3] + (3.0 if self._waiting[0][5] else self._timeout_s), ",
        ),
    ),
}


# -- planting --------------------------------------------------------------------------------------------------------------------


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _compiled(function: Any, change: Callable[[str], str]) -> CodeType:
    """The code of a function whose source is changed, compiled as a part of its file."""
    path = inspect.getsourcefile(function)
    assert path is not None
    lines, begin = inspect.getsourcelines(function)
    whole = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    source = "".join([*whole[: begin - 1], change("".join(lines)), *whole[begin - 1 + len(lines) :]])
    found = [one for one in _codes(compile(source, path, "exec")) if one.co_qualname == function.__qualname__]
    assert len(found) == 1, function.__qualname__
    return found[0]


@functools.cache
def _edited(function: Any, edits: tuple[Edit, ...]) -> CodeType:
    def change(text: str) -> str:
        for edit in edits:
            assert text.count(edit.before) == 1, f"{function.__qualname__} does not have {edit.before!r} once"
            text = text.replace(edit.before, edit.after)
        return text

    return _compiled(function, change)


def _marked(function: Any, edits: dict[str, Edit]) -> CodeType:
    """Notes in ``REACHED`` the name of each edit when what it changes is run: its statement, or the branch that goes away."""

    def change(text: str) -> str:
        (definition,) = ast.parse(textwrap.dedent(text)).body
        lines, marks = text.splitlines(keepends=True), dict[int, list[str]]()
        for name, edit in edits.items():
            before = text[: text.index(edit.before)].count("\n") + 1
            if edit.after == "if False:":
                line = before + edit.before.count("\n") + 1
            else:
                line = max(
                    one.lineno
                    for one in ast.walk(definition)
                    if isinstance(one, ast.stmt)
                    and one is not definition
                    and one.lineno <= before <= (one.end_lineno or 0)
                    and not lines[one.lineno - 1].lstrip().startswith("elif")
                )
            marks.setdefault(line - 1, []).append(name)
        for line, names in marks.items():
            indentation = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
            lines[line] = f"{indentation}__import__({__name__!r}).REACHED.update({names!r})\n{lines[line]}"
        return "".join(lines)

    return _compiled(function, change)


@contextlib.contextmanager
def _replaced(codes: dict[Any, CodeType]) -> Iterator[None]:
    before = {function: function.__code__ for function in codes}
    try:
        for function, code in codes.items():
            function.__code__ = code
        yield
    finally:
        for function, code in before.items():
            function.__code__ = code


def _codes_with(faults: Iterable[Fault]) -> dict[Any, CodeType]:
    """No two of them change the same function."""
    by_function: dict[Any, list[Edit]] = {}
    for edit in itertools.chain.from_iterable(fault.edits for fault in faults):
        by_function.setdefault(edit.function, []).append(edit)
    return {function: _edited(function, tuple(edits)) for function, edits in by_function.items()}


def planted(fault: Fault) -> contextlib.AbstractContextManager[None]:
    return _replaced(_codes_with([fault]))


REACHED: set[str] = set()  # by the run of this process: names of edits


def edits_of(name: str) -> dict[str, Edit]:
    """By name."""
    return {f"{name}/{number}": edit for number, edit in enumerate(FAULTS[name].edits)}


# -- searching -------------------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """``seconds``: of one core, for all seeds until this one."""

    seed: int
    error: str
    seconds: float


def with_faults(faults: Iterable[Fault]) -> Callable[[Draws], World]:
    """Of functions that no two of them change."""
    codes = _codes_with(faults)  # before the fork

    def run_it(draws: Draws) -> World:
        with _replaced(codes):
            return run(draws)

    return run_it


def with_marks() -> Callable[[Draws], World]:
    """Runs without a fault. Their draw ``reached`` names the edits that would have made a difference, as far as it can be seen."""
    by_function: dict[Any, dict[str, Edit]] = {}
    for fault in FAULTS:
        for name, edit in edits_of(fault).items():
            by_function.setdefault(edit.function, {})[name] = edit
    codes = {function: _marked(function, edits) for function, edits in by_function.items()}

    def run_it(draws: Draws) -> World:
        try:
            with _replaced(codes):
                return run(draws)
        finally:
            draws.keep("reached", REACHED)

    return run_it


def search(fault: Fault, seeds: Iterable[int], most_s: float) -> Found | None:
    """The first seed that fails with the fault and passes without it; None after ``most_s`` seconds of a core."""
    spent_s = 0.0
    for seed in seeds:
        failed = outcome_of(with_faults([fault]), Draws(seed, given_in(fault.given)), RUN_LIMIT_S)
        spent_s += failed.cpu_s
        if failed.error and not outcome_of(run, Draws(seed, given_in(fault.given)), RUN_LIMIT_S).error:
            return Found(seed, failed.error, round(spent_s, 1))
        if spent_s > most_s:
            break
    return None
