"""Mutants of delay levels, timer messages and send-back."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["TIMER_MUTANTS"]

BROKER, STORE, CORE = "src/sprocketmq/broker", "src/sprocketmq/store", "src/sprocketmq/core"
TIMER = "tests/inproc/broker/test_broker_timer.py"
DELAY = "tests/inproc/broker/test_broker_delay.py"
RESTART = "tests/inproc/broker/test_broker_restart.py"
FILES = "tests/unit/store/test_timer_files.py"
RULES = "tests/unit/core/test_timer_schedule.py"

TIMER_MUTANTS = [
    Mutant(
        "timer",
        "what is due is delivered though that cannot be noted",
        f"{BROKER}/delivery/timer_messages.py",
        "            files.make_notable()\n",
        "",
        "tests/inproc/broker/test_broker_disk_full.py::test_what_is_due_waits_until_it_can_be_noted_that_it_was_delivered",
    ),
    Mutant(
        "timer",
        "a full second belongs to its own slot, so its message comes a second late",
        f"{CORE}/timer_schedule.py",
        "return self.floor(deliver_ms - 1)",
        "return self.floor(deliver_ms)",
        f"{RULES}::test_the_slot_of_a_moment_ends_at_it_or_less_than_a_slot_after_it",
    ),
    Mutant(
        "timer",
        "a slot is read when it begins",
        f"{CORE}/timer_schedule.py",
        "        return slot_ms + self.precision_ms\n",
        "        return slot_ms\n",
        f"{TIMER}::test_a_timer_message_comes_within_its_second_and_never_early",
    ),
    Mutant(
        "timer",
        "what is far away is delivered at its roll",
        f"{BROKER}/delivery/timer_messages.py",
        "_copy(record, unit.write_ms, now_ms, rolls=unit.rolls)",
        "_copy(record, unit.write_ms, now_ms, rolls=False)",
        f"{TIMER}::test_three_days_are_allowed_and_roll_on_the_way",
    ),
    Mutant(
        "timer",
        "a nearer slot does not move the timer",
        f"{BROKER}/delivery/timer_messages.py",
        "            if self._armed_for <= nearest:\n",
        "            if self._armed_for:\n",
        f"{TIMER}::test_one_timer_for_the_nearest_slot_and_none_when_all_is_delivered",
    ),
    Mutant(
        "timer",
        "a message that was taken back comes all the same",
        f"{BROKER}/delivery/timer_messages.py",
        "                if (topic, key) in keys:\n",
        "                if (topic, key) in ():\n",
        f"{TIMER}::test_a_message_that_was_taken_back_never_comes_and_its_neighbours_do",
    ),
    Mutant(
        "timer",
        "a slot that a kill interrupted begins anew",
        f"{BROKER}/delivery/timer_messages.py",
        "            part.at = self.files.done  # a kill interrupted this slot\n",
        "            part.at = 0\n",
        f"{DELAY}::test_a_kill_between_a_delivery_and_its_progress_delivers_once_more_and_skips_nothing",
    ),
    Mutant(
        "timer",
        "delivered slots come again after a kill",
        f"{STORE}/timer/timer_files.py",
        "            self.read_ms, self.done = live[1], 0 if self._live.differs else live[2]\n",
        "            pass\n",
        f"{FILES}::test_a_slot_that_was_delivered_before_a_kill_does_not_come_back",
    ),
    Mutant(
        "timer",
        "slots that point behind the log are believed",
        f"{STORE}/timer/timer_files.py",
        "if slot.last >= self.log.end}",
        "if slot.last < 0}",
        f"{FILES}::test_after_a_power_cut_that_took_the_end_of_the_log_slots_that_point_there_are_linked_again",
    ),
    Mutant(
        "timer",
        "after a power cut entries are linked twice",
        f"{STORE}/timer/timer_files.py",
        "        if newest is not None and newest >= self.queue_offset:\n",
        "        if False:\n",
        f"{FILES}::test_after_a_power_cut_the_checkpoint_counts_and_no_entry_is_linked_twice",
    ),
    Mutant(
        "delay",
        "progress is written before its copies are on the disk",
        f"{BROKER}/config_store.py",
        "            made(self._schedule.content().encode())\n",
        "            self._save_beside(file, self._schedule.content().encode())\n",
        f"{RESTART}::test_delay_progress_is_not_written_before_the_copies_it_speaks_of_are_on_the_disk",
    ),
    Mutant(
        "delay",
        "a level that is no more is forgotten",
        f"{BROKER}/delivery/schedule.py",
        "            if topic == SCHEDULE_TOPIC:\n",
        "            if topic == SCHEDULE_TOPIC and queue_id < self.levels.max_level:\n",
        f"{DELAY}::test_a_level_that_is_no_more_is_emptied_at_the_times_its_messages_had",
    ),
    Mutant(
        "delay",
        "a kill takes the delay levels back to what the file says",
        f"{BROKER}/delivery/schedule.py",
        "            if live > self._progress.get(level, 0):\n",
        "            if live < 0:\n",
        f"{DELAY}::test_after_a_kill_nothing_that_was_delivered_comes_again",
    ),
    Mutant(
        "delay",
        "progress moves before the append",
        f"{BROKER}/delivery/schedule.py",
        "                self._deliver(records, unit, now_ms)\n                position = unit.queue_offset + 1\n"
        "                self._note(level, position)\n",
        "                position = unit.queue_offset + 1\n                self._note(level, position)\n"
        "                self._deliver(records, unit, now_ms)\n",
        f"{DELAY}::test_a_put_that_is_refused_in_the_middle_of_a_step_neither_skips_nor_repeats",
    ),
    Mutant(
        "delay",
        "the progress of a step is kept when it has ended, so a kill repeats all of it",
        f"{BROKER}/delivery/schedule.py",
        "        self._live.change(level - 1, position)\n",
        "",
        f"{DELAY}::test_a_kill_in_the_middle_of_a_step_repeats_one_message_at_most",
    ),
    Mutant(
        "delay",
        "a level that is due delivers all before another one has its turn",
        f"{BROKER}/delivery/schedule.py",
        "                self._turns.append(level)\n            elif",
        "                self._turns.appendleft(level)\n            elif",
        f"{DELAY}::test_levels_that_are_due_at_once_take_turns",
    ),
    Mutant(
        "delay",
        "a step has no end",
        f"{BROKER}/delivery/schedule.py",
        "_STEP_MESSAGES: Final = 128 ",
        "_STEP_MESSAGES: Final = 100_000 ",
        f"{DELAY}::test_an_instant_with_thousands_of_messages_is_delivered_in_parts_so_that_requests_get_in_between",
    ),
    Mutant(
        "delay",
        "large messages do not end a step",
        f"{BROKER}/delivery/schedule.py",
        "                left_bytes -= unit.size\n",
        "",
        f"{DELAY}::test_large_messages_end_a_step_before_their_count_does",
    ),
    Mutant(
        "delay",
        "each message of a stream has a step of its own",
        f"{BROKER}/delivery/schedule.py",
        "_PAUSE_MS: Final = 5 ",
        "_PAUSE_MS: Final = 0 ",
        f"{DELAY}::test_a_stream_of_messages_is_delivered_some_at_a_time_and_all_within_milliseconds",
    ),
    Mutant(
        "delay",
        "whatever looks like a record is delivered",
        f"{BROKER}/delivery/waiting_records.py",
        "        if head[_PHYSICAL_OFFSET] == physical_offset and raw",
        "        if raw",
        "tests/unit/broker/test_waiting_records.py::test_a_damaged_record_is_none_and_its_neighbours_are_found",
    ),
    Mutant(
        "timer",
        "each timer message is read on its own",
        f"{BROKER}/delivery/timer_messages.py",
        "            self._read_timer = asyncio.get_running_loop().call_soon(self._read_queue)\n",
        "            self._read_queue()\n",
        f"{TIMER}::test_the_queue_is_read_once_for_all_that_came_in_one_turn_of_the_loop",
    ),
    Mutant(
        "timer",
        "what was done of one slot stands beside the next one for a moment",
        f"{STORE}/timer/timer_files.py",
        "            live.change(2, 0)  # law 3",
        "            pass  # law 3",
        f"{FILES}::test_what_was_done_of_one_slot_never_stands_beside_another",
    ),
    Mutant(
        "timer",
        "after a start the progress of the process before it is written over from its front",
        f"{STORE}/files/live_progress.py",
        "        for index in reversed(range(len(numbers))):\n",
        "        for index in range(len(numbers)):\n",
        f"{FILES}::test_what_was_done_of_one_slot_never_stands_beside_another",
    ),
]
