"""Mutants of what survives power cuts, flipped bits and kills."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["DURABILITY_MUTANTS"]

CONFIG = "src/sprocketmq/broker/config_store.py"
FILES = "src/sprocketmq/store/config_files.py"
FLIPPED = "tests/unit/store/test_flipped_bits.py"
RESTART = "tests/inproc/broker/test_broker_restart.py"
POWER = "tests/inproc/broker/test_broker_power_cut.py"
TRANSACTIONS = "tests/inproc/broker/test_broker_transactions.py"

DURABILITY_MUTANTS = [
    Mutant(
        "durability",
        "transaction progress is not saved at once",
        "src/sprocketmq/broker/transactions.py",
        "            self._broker.save_offsets()  # at once",
        "            pass  # at once",
        f"{TRANSACTIONS}::test_progress_is_written_at_once_after_a_round_but_not_before_the_disk_has_the_copies",
    ),
    Mutant(
        "durability",
        "progress is written before the log is on the disk",
        CONFIG,
        "            raw, durable = text, self._store.when_durable(self._store.max_physical_offset)",
        "            raw, durable = text, self._store.when_durable(0)",
        f"{TRANSACTIONS}::test_progress_is_written_at_once_after_a_round_but_not_before_the_disk_has_the_copies",
    ),
    Mutant(
        "durability",
        "timer messages are delivered before a cut-off commit is looked for",
        "src/sprocketmq/broker/broker.py",
        "            self.transactions,  # before any that stores messages: a commit that was cut off is the last of the log\n"
        "            self.schedule,\n            self.timers,\n",
        "            self.schedule,\n            self.timers,\n            self.transactions,\n",
        f"{TRANSACTIONS}::test_a_commit_whose_mark_was_cut_off_is_found_before_the_start_delivers_anything",
    ),
    Mutant(
        "durability",
        "the name of a new folder stays off the disk",
        "src/sprocketmq/store/mapped_file.py",
        "        if os.access(above, os.R_OK):",
        "        if False:",
        "tests/unit/store/test_files.py::test_new_folders_are_synced_by_name_from_the_top",
    ),
    Mutant(
        "durability",
        "a search in a queue believes one entry",
        "src/sprocketmq/store/consume_queue.py",
        "if len(around) == 3 else place(middle)",
        "if len(around) == 9 else place(middle)",
        "tests/unit/store/test_flipped_bits.py::test_a_search_is_not_misled_by_one_entry",
    ),
    Mutant(
        "durability",
        "a damaged record ends the log after a kill, too",
        "src/sprocketmq/store/recovery.py",
        "_EVERYWHERE if clean_stop or same_boot else",
        "_EVERYWHERE if clean_stop else",
        "tests/unit/store/test_flipped_bits.py::test_a_damaged_record_costs_itself_and_is_said",
    ),
    Mutant(
        "durability",
        "a pull hands out what a damaged last entry points at",
        "src/sprocketmq/store/plain_reads.py",
        "        return _HEAD.unpack_from(data, last - first) == ",
        "        return True or _HEAD.unpack_from(data, last - first) == ",
        f"{FLIPPED}::test_a_pull_hands_out_no_other_record_than_the_one_asked_for",
    ),
    Mutant(
        "durability",
        "a pull of a shared log hands out what a damaged entry points at",
        "src/sprocketmq/store/plain_reads.py",
        "    return all(map(eq, heads,",
        "    return True or all(map(eq, heads,",
        f"{FLIPPED}::test_a_pull_hands_out_no_other_record_than_the_one_asked_for",
    ),
    Mutant(
        "durability",
        "entries that were on the disk at the start are believed",
        "src/sprocketmq/store/consume_queue.py",
        "        self.flushed_offset = self.written_from = self.max_offset\n",
        "        self.flushed_offset = self.max_offset\n",
        f"{FLIPPED}::test_a_pull_hands_out_no_other_record_than_the_one_asked_for",
    ),
    Mutant(
        "durability",
        "a flipped checkpoint is believed",
        "src/sprocketmq/store/checkpoint.py",
        "        if seal_mark == _SEAL_MARK and seal",
        "        if seal_mark == b'' and seal",
        "tests/unit/store/test_flipped_bits.py::test_a_checkpoint_with_a_flipped_bit_says_nothing",
    ),
    Mutant(
        "durability",
        "files of a deleted topic that a power cut brought back are a topic",
        "src/sprocketmq/store/recovery.py",
        "        self._delete_first_lives()\n        self.begin",
        "        self.begin",
        f"{RESTART}::test_a_deleted_topic_whose_files_a_power_cut_brought_back_stays_deleted",
    ),
    Mutant(
        "durability",
        "offsets of a deleted topic stay when a kill came between the files",
        "src/sprocketmq/broker/broker.py",
        "            self.offsets.forget_topic(topic)  # a kill came between",
        "            pass  # a kill came between",
        f"{RESTART}::test_a_deleted_topic_whose_files_a_power_cut_brought_back_stays_deleted",
    ),
    Mutant(
        "durability",
        "a topic that was made again gets the records of its first life after a kill",
        "src/sprocketmq/store/recovery.py",
        "            if record.physical_offset < self._deleted_topics.get(topic, 0):",
        "            if False:",
        f"{RESTART}::test_a_topic_that_was_made_again_has_nothing_of_its_first_life_after_a_kill",
    ),
    Mutant(
        "durability",
        "a change of offsets is answered before it is on the disk",
        "src/sprocketmq/broker/broker.py",
        "        if offsets:\n            self._config_store.when_offsets_saved",
        "        if False:\n            self._config_store.when_offsets_saved",
        f"{RESTART}::test_an_administrators_change_of_offsets_survives_a_kill_right_after_its_answer",
    ),
    Mutant(
        "durability",
        "there is a moment without the file while it is replaced",
        FILES,
        "    has_old = _keep(target, old)\n    os.replace(temporary, target)\n",
        "    has_old = os.path.exists(target)\n    if has_old:\n        os.replace(target, old)\n    os.replace(temporary, target)\n",
        "tests/unit/store/test_files.py::test_a_power_cut_at_any_step_of_a_save_takes_nothing_back",
    ),
    Mutant(
        "durability",
        "the spare copy is replaced before the file",
        FILES,
        '    os.replace(temporary, target)\n    if has_old:\n        os.replace(old, target + ".bak")\n',
        '    if has_old:\n        os.replace(old, target + ".bak")\n    os.replace(temporary, target)\n',
        "tests/unit/store/test_files.py::test_a_save_that_is_killed_at_any_step_leaves_a_complete_text",
    ),
    Mutant(
        "durability",
        "a text is taken for saved though a later one has taken its place",
        FILES,
        "        self._saved = None  # a save that fails",
        "        pass  # a save that fails",
        "tests/unit/store/test_files.py::test_a_text_whose_successor_failed_on_the_way_is_written_again",
    ),
    Mutant(
        "durability",
        "what waits for a deleted topic makes it anew",
        "src/sprocketmq/broker/undeliverable.py",
        "        elif message.topic in self._broker.topics.deleted and",
        "        elif False and",
        "tests/inproc/broker/test_undeliverable.py::test_what_waits_for_a_topic_that_was_deleted_makes_no_topic",
    ),
    Mutant(
        "durability",
        "the timer delivers what a damaged unit points at",
        "src/sprocketmq/broker/waiting_records.py",
        "        return record if self._window[begin:end] == ",
        "        return record if True or self._window[begin:end] == ",
        "tests/inproc/broker/test_damaged_timer_files.py::test_a_unit_that_points_to_another_record_delivers_nothing_and_is_said",
    ),
    Mutant(
        "durability",
        "the timer follows a list into another slot",
        "src/sprocketmq/broker/timer_messages.py",
        "                or self.rules.floor(unit.slot_ms) != self.rules.floor(part.slot_ms)\n",
        "",
        "tests/inproc/broker/test_damaged_timer_files.py::test_a_list_that_goes_round_or_elsewhere_ends",
    ),
    Mutant(
        "durability",
        "members expire by the time of the day",
        "src/sprocketmq/broker/handlers/consumers.py",
        "command.version, broker.clock.steady_ms())",
        "command.version, now_ms)",
        "tests/inproc/broker/test_broker_members.py::test_a_clock_that_is_set_ends_no_member_and_no_lock",
    ),
    Mutant(
        "durability",
        "a name server forgets its brokers when its clock is set",
        "src/sprocketmq/broker/namesrv.py",
        "in self.table.expire(self.clock.steady_ms()):",
        "in self.table.expire(self.clock.now_ms()):",
        "tests/inproc/broker/test_broker_namesrv.py::test_a_clock_that_is_set_makes_the_name_server_forget_no_broker",
    ),
    Mutant(
        "durability",
        "a held pull waits by the time of the day",
        "src/sprocketmq/broker/parked.py",
        "self._room.expire(self._clock.steady_ms())",
        "self._room.expire(self._clock.now_ms())",
        "tests/inproc/broker/test_broker_long_polling.py::test_a_clock_that_is_set_makes_no_pull_wait_longer_or_shorter",
    ),
]
