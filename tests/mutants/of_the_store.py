"""Mutants of the index by key, of recovery in batches, of the census, and of what the disk is told."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["STORE_MUTANTS"]

STORE, HANDLERS = "src/sprocketmq/store", "src/sprocketmq/broker/handlers"
UNIFORM = "tests/unit/store/test_uniform_records.py"
INDEX = "tests/unit/store/test_index.py"
HANDOVER = "tests/unit/store/test_index_handover.py"
RECOVERY = "tests/unit/store/test_recovery.py"
RETENTION = "tests/unit/store/test_retention.py"
CUT = "tests/unit/store/test_power_cut.py"
EXTENSION = "tests/unit/store/test_consume_queue_ext.py"

STORE_MUTANTS = [
    Mutant(
        "files",
        "two entries of one batch in the same slot forget each other",
        f"{STORE}/index_file.py",
        "        before[order[1:][again]] = numbers[order[:-1][again]]\n",
        "",
        f"{INDEX}::test_every_key_of_every_record_is_found_in_many_small_files",
    ),
    Mutant(
        "files",
        "after a crash the slots are believed",
        f"{STORE}/index_file.py",
        "        slots[wrong] = table[wrong]\n",
        "",
        f"{INDEX}::test_after_a_crash_the_index_is_completed_from_what_the_disk_was_sure_to_have",
    ),
    Mutant(
        "files",
        "index entries that are written again after a crash are not synced again",
        f"{STORE}/index_file.py",
        "changes == self.synced_changes:",
        "changes in (self.synced_changes, 2):  # the repair, and what it cut",
        f"{CUT}::test_index_entries_that_are_written_again_after_a_cut_survive_the_next_one",
    ),
    Mutant(
        "files",
        "after a crash of ours the index is believed as far as it goes",
        f"{STORE}/index_files.py",
        "        if sure is None:\n            return counted\n        return min(sure.index_count, counted) if",
        "        return counted if",
        f"{INDEX}::test_after_a_crash_the_index_is_completed_from_what_the_disk_was_sure_to_have",
    ),
    Mutant(
        "files",
        "a Java broker is told to begin behind what the index lacks",
        f"{STORE}/checkpoint.py",
        "            logics_ms = min(logics_ms, self.indexed_timestamp)\n",
        "            pass\n",
        f"{HANDOVER}::test_java_begins_where_the_index_of_a_killed_broker_is_sure",
    ),
    Mutant(
        "files",
        "a killed broker's index file does not count what its slots point at",
        f"{STORE}/index_file.py",
        "        _HEADER.pack_into(self._mapping(), 0, *header)\n",
        "",
        f"{HANDOVER}::test_ours_killed_then_java_killed_then_ours_no_key_is_lost",
    ),
    Mutant(
        "files",
        "index files end later than the checkpoint says",
        f"{STORE}/dispatch.py",
        "            self._checkpoint.cover_index(int(store_timestamps.max()))\n",
        "            pass\n",
        f"{HANDOVER}::test_ours_killed_then_java_killed_then_ours_no_key_is_lost",
    ),
    Mutant(
        "files",
        "after a clean stop the checkpoint's third timestamp is ahead",
        f"{STORE}/disk_message_store.py",
        "                self._checkpoint.index_msg_timestamp = self.index.end_timestamp_ms\n",
        "",
        f"{HANDOVER}::test_a_clean_stop_leaves_the_timestamps_that_java_would",
    ),
    Mutant(
        "files",
        "what a Java broker indexed is cut at an old mark of ours",
        f"{STORE}/disk_message_store.py",
        "was_ours = checkpoint.is_ours and not clean_stop",
        "was_ours = not clean_stop",
        f"{HANDOVER}::test_what_java_has_indexed_since_is_kept_after_its_kill",
    ),
    Mutant(
        "files",
        "entries of records that a crash took stay",
        f"{STORE}/index_file.py",
        "fine = (offsets < log_end) & (hashes >= 0)",
        "fine = (hashes >= 0)",
        f"{INDEX}::test_entries_of_records_that_a_crash_took_go_with_them",
    ),
    Mutant(
        "files",
        "what a full disk kept out of the index is forgotten",
        f"{STORE}/dispatch.py",
        "        self._index.put_rest()\n",
        "",
        f"{INDEX}::test_a_full_disk_holds_the_index_back_and_loses_no_key",
    ),
    Mutant(
        "files",
        "a lost index is taken for complete, because the checkpoint says so",
        f"{STORE}/dispatch.py",
        "if name == index.newest_name and offset > begin and at_record:",
        "if offset > begin and at_record:",
        f"{INDEX}::test_a_lost_index_is_noticed_and_built_anew",
    ),
    Mutant(
        "files",
        "rollbacks are indexed",
        f"{STORE}/dispatch.py",
        "_TRANSACTION_MASK, _ROLLBACK = 0xC, 0xC",
        "_TRANSACTION_MASK, _ROLLBACK = 0xC, 0x10",
        f"{INDEX}::test_half_messages_are_indexed_and_rollbacks_are_not",
    ),
    Mutant(
        "files",
        "a value with a separator in it passes for the template's",
        f"{STORE}/record_batch.py",
        "    differ |= ((texts - np.uint8(1)) < 2) & template.is_value  # a separator inside a value\n",
        "",
        f"{INDEX}::test_a_value_that_holds_a_separator_is_not_of_the_same_shape",
    ),
    Mutant(
        "files",
        "records of several shapes are indexed as the first",
        f"{STORE}/uniform_records.py",
        "    if tails.tobytes() != tail * len(tails):\n        return None\n",
        "",
        f"{UNIFORM}::test_one_odd_record_leaves_them_all_to_be_taken_apart",
    ),
    Mutant(
        "files",
        "a key with a separator in it passes for one that looks alike",
        f"{STORE}/uniform_records.py",
        ' or b"\\x01" in text or b"\\x02" in text',
        "",
        f"{UNIFORM}::test_one_odd_record_leaves_them_all_to_be_taken_apart",
    ),
    Mutant(
        "files",
        "records are indexed that are not at their places",
        f"{STORE}/uniform_records.py",
        "        or (physical_offsets != np.arange(file_start + at, file_start + at + count * size, size)).any()\n",
        "",
        f"{UNIFORM}::test_a_record_that_is_not_sound_is_no_part_of_a_run",
    ),
    Mutant(
        "files",
        "records are believed many at once without their checksums",
        f"{STORE}/recovery.py",
        "            whole &= np.array([crc32(data[begin:end]) & 0x7FFFFFFF == crc for begin, end, crc in bodies], bool)\n",
        "            pass\n",
        f"{RECOVERY}::test_a_last_record_damaged_at_any_byte_never_takes_its_neighbours_down",
    ),
    Mutant(
        "files",
        "a torn entry is right if its beginning is",
        f"{STORE}/recovery.py",
        "        if not wanted.startswith(present) or",
        "        if wanted[:12] != present[:12] or",
        f"{RECOVERY}::test_a_last_entry_torn_at_any_byte_is_written_anew",
    ),
    Mutant(
        "files",
        "a queue lost after a clean stop is not missed",
        f"{STORE}/recovery.py",
        "        return census is not None and census[0] == end and census != self._queues.census(end)",
        "        return False",
        f"{RECOVERY}::test_one_lost_queue_is_noticed_after_a_clean_stop",
    ),
    Mutant(
        "files",
        "an acknowledged record is not on the disk",
        f"{STORE}/flush.py",
        "                            file.sync()\n",
        "                            pass\n",
        f"{CUT}::test_what_was_acknowledged_survives_the_worst_cut",
    ),
    Mutant(
        "files",
        "index files behind the head stay for ever",
        f"{STORE}/retention.py",
        "            self._store.index.clean(files.start)\n",
        "",
        f"{RETENTION}::test_index_files_behind_the_head_go_with_the_log",
    ),
    Mutant(
        "files",
        "the address of an extension is taken for a tags code",
        f"{STORE}/queue_log_store.py",
        "            if tags_code < _SMALLEST_HASH and size != FILLER_SIZE:\n",
        "            if False:\n",
        f"{EXTENSION}::test_units_have_addresses_and_tags_are_read_through_them",
    ),
    Mutant(
        "files",
        "a query by key does not see what was sent just now",
        f"{HANDLERS}/lookup.py",
        "    broker.index_building.catch_up()\n",
        "",
        "tests/inproc/broker/test_broker_lookup.py::test_messages_are_found_by_each_of_their_keys_at_once_and_in_the_order_of_the_log",
    ),
]
