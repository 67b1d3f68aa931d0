# SPDX-License-Identifier: Apache-2.0
"""The store."""

from __future__ import annotations

from mutants.mutant import Mutant

__all__ = ["STORE_MUTANTS"]

STORE_MUTANTS = [
    Mutant(
        "S4",
        "a hole in a queue's files goes unnoticed",
        "src/sprocketmq/store/files/mapped_file_queue.py",
        "for start in range(starts[0], starts[-1] + 1, size) if starts else ():",
        "for start in starts:",
        "tests/unit/store/recovery/test_recovery.py::test_a_queue_that_misses_a_file_is_built_anew_from_the_log",
    ),
    Mutant(
        "S4",
        "messages that the filter does not match are checked again by each pull",
        "src/sprocketmq/store/message_store.py",
        "            result.next_offset += 1\n",
        "            result.next_offset += bool(result.count)\n",
        "tests/inproc/broker/test_broker_pull.py::test_tags_of_the_request_filter_and_the_pull_moves_past_unmatched_messages",
    ),
    Mutant(
        "S4",
        "who pulls before the beginning of a queue is sent back to where it was",
        "src/sprocketmq/store/message_store.py",
        "ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high)",
        "ReadResult(ReadStatus.OFFSET_TOO_SMALL, offset, low, high)",
        "tests/inproc/broker/test_broker_pull.py::test_offsets_outside_the_queue_are_answered_with_where_to_go_on",
    ),
    Mutant(
        "durability",
        "a topic that was made again gets the records of its first life after a kill",
        "src/sprocketmq/store/recovery/recovery.py",
        "            if record.physical_offset < self._deletion_of(topic, record.queue_id):",
        "            if False:",
        "tests/inproc/broker/test_broker_restart.py::test_a_recreated_topic_has_none_of_its_deleted_messages_after_a_kill",
    ),
    Mutant(
        "durability",
        "an acknowledged record is not on the disk",
        "src/sprocketmq/store/services/flush.py",
        "                            file.sync()\n",
        "                            pass\n",
        "tests/unit/store/recovery/test_power_cut.py::test_what_was_acknowledged_survives_the_worst_cut",
    ),
    Mutant(
        "store",
        "a sync stops the other processors for each changed page",
        "src/sprocketmq/store/files/mapped_file.py",
        "mapping.madvise(mmap.MADV_DONTNEED, at, min(_RELEASE_BYTES, end - at))",
        "pass",
        "tests/unit/store/services/test_flush.py::test_full_pages_leave_the_mapping_before_a_sync_and_their_messages_stay",
    ),
    Mutant(
        "store",
        "the store takes messages after a sync that failed",
        "src/sprocketmq/store/services/flush.py",
        "        self._store.refuse_appends(error)\n",
        "",
        "tests/unit/store/services/test_flush.py::test_a_failed_sync_fails_its_waiters_and_the_store_takes_nothing_more",
    ),
    Mutant(
        "store",
        "what lies behind the end is not zeroed and comes back",
        "src/sprocketmq/store/recovery/recovery.py",
        "            log.truncate_to_end()\n",
        "            pass\n",
        "tests/unit/store/recovery/test_recovery.py::test_what_lies_behind_the_end_is_zeroed_so_that_it_cannot_come_back",
    ),
    Mutant(
        "store",
        "a record inside a body is taken for a record",
        "src/sprocketmq/store/log/commit_log.py",
        "    if record.physical_offset != physical_offset:\n        return False\n",
        "",
        "tests/unit/store/test_message_store.py::test_a_record_inside_a_body_is_no_record",
    ),
    Mutant(
        "full disk",
        "two brokers write the same commit log",
        "src/sprocketmq/store/files/lock_file.py",
        "                    self._lock_folder(folder)\n",
        "                    pass\n",
        "tests/system/broker/test_store_folders.py::test_two_brokers_do_not_share_a_folder",
    ),
    Mutant(
        "durability",
        "the name of a new folder stays off the disk",
        "src/sprocketmq/store/files/mapped_file.py",
        "        if os.access(above, os.R_OK):",
        "        if False:",
        "tests/unit/store/files/test_files.py::test_new_folders_are_synced_by_name_from_the_top",
    ),
    Mutant(
        "durability",
        "there is a moment without the file while it is replaced",
        "src/sprocketmq/store/config_files.py",
        "    has_old = _keep(target, old)\n    os.replace(temporary, target)\n",
        "    has_old = os.path.exists(target)\n"
        "    if has_old:\n"
        "        os.replace(target, old)\n"
        "    os.replace(temporary, target)\n",
        "tests/unit/store/test_config_files.py::test_a_power_cut_at_any_step_of_a_save_takes_nothing_back",
    ),
    Mutant(
        "full disk",
        "a short write is taken for whole",
        "src/sprocketmq/store/files/disk_space.py",
        "            at += os.write(fd, _ZEROS[: min(piece_bytes, end - at)])\n",
        "            os.write(fd, _ZEROS[: end - at])\n            at = end\n",
        "tests/unit/store/files/test_disk_space.py",
    ),
    Mutant(
        "full disk",
        "room is given without asking the kernel for the pages",
        "src/sprocketmq/store/files/mapped_file.py",
        "            allow_writes_at_ends(self._mapping(), self.path, begin, end)\n",
        "            pass\n",
        "tests/unit/store/files/test_disk_space.py::test_pages_that_the_kernel_does_not_let_be_written_are_no_room",
    ),
    Mutant(
        "threads",
        "work that ran without its thread runs again when a thread can be started",
        "src/sprocketmq/threads.py",
        "        claimed()\n",
        "        work()\n",
        "tests/unit/test_threads.py::test_without_a_thread_work_runs_here_and_never_again",
    ),
    Mutant(
        "threads",
        "zeros that were to be written ahead are written later, over records",
        "src/sprocketmq/store/files/preallocation.py",
        "submit(self._executor, write)",
        "self._executor.submit(write)",
        "tests/inproc/broker/test_refused_threads.py::test_nothing_acknowledged_is_lost_while_a_thread_cannot_be_started",
    ),
    Mutant(
        "store",
        "retention leaves a file of a queue whose last entry is gone",
        "src/sprocketmq/store/queue/consume_queue.py",
        "self.files.files[1].start <= self.min_offset * UNIT_SIZE_BYTES",
        "self.files.files[1].start < self.min_offset * UNIT_SIZE_BYTES",
        "tests/unit/store/queue/test_consume_queue.py::test_retention_keeps_the_file_of_the_first_kept_unit_and_none_before_it",
    ),
]
