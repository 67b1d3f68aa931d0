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
        f"{BROKER}/timer_messages.py",
        "_copy(record, unit.write_ms, now_ms, rolls=unit.rolls)",
        "_copy(record, unit.write_ms, now_ms, rolls=False)",
        f"{TIMER}::test_three_days_are_allowed_and_roll_on_the_way",
    ),
    Mutant(
        "timer",
        "a nearer slot does not move the timer",
        f"{BROKER}/timer_messages.py",
        "            if self._armed_for <= nearest:\n",
        "            if self._armed_for:\n",
        f"{TIMER}::test_one_timer_for_the_nearest_slot_and_none_when_all_is_delivered",
    ),
    Mutant(
        "timer",
        "a message that was taken back comes all the same",
        f"{BROKER}/timer_messages.py",
        "                if key in keys:\n",
        "                if key in ():\n",
        f"{TIMER}::test_a_message_that_was_taken_back_never_comes_and_its_neighbours_do",
    ),
    Mutant(
        "timer",
        "a slot that a kill interrupted begins anew",
        f"{BROKER}/timer_messages.py",
        "            part.at = self.files.done  # a kill interrupted this slot\n",
        "            part.at = 0\n",
        f"{DELAY}::test_a_kill_between_a_delivery_and_its_progress_delivers_once_more_and_skips_nothing",
    ),
    Mutant(
        "timer",
        "delivered slots come again after a kill",
        f"{STORE}/timer_files.py",
        "            self.read_ms, self.done = live[1], live[2]\n",
        "            pass\n",
        f"{FILES}::test_a_slot_that_was_delivered_before_a_kill_does_not_come_back",
    ),
    Mutant(
        "timer",
        "slots that point behind the log are believed",
        f"{STORE}/timer_files.py",
        "if slot.last >= self.log.end}",
        "if slot.last < 0}",
        f"{FILES}::test_after_a_power_cut_that_took_the_end_of_the_log_slots_that_point_there_are_linked_again",
    ),
    Mutant(
        "timer",
        "after a power cut entries are linked twice",
        f"{STORE}/timer_files.py",
        "        if newest is not None and newest >= self.queue_offset:\n",
        "        if False:\n",
        f"{FILES}::test_after_a_power_cut_the_checkpoint_counts_and_no_entry_is_linked_twice",
    ),
    Mutant(
        "delay",
        "progress is written before its copies are on the disk",
        f"{BROKER}/schedule.py",
        "        if not self._running or self._store.flushed_offset >= end:\n",
        "        if True:\n",
        f"{RESTART}::test_delay_progress_is_not_written_before_the_copies_it_speaks_of_are_on_the_disk",
    ),
    Mutant(
        "delay",
        "a level that is no more is forgotten",
        f"{BROKER}/schedule.py",
        "            if topic == SCHEDULE_TOPIC:\n",
        "            if topic == SCHEDULE_TOPIC and queue_id < self.levels.max_level:\n",
        f"{DELAY}::test_a_level_that_is_no_more_is_emptied_at_the_times_its_messages_had",
    ),
    Mutant(
        "delay",
        "a kill takes the delay levels back to what the file says",
        f"{BROKER}/schedule.py",
        "            if live > self._progress.get(level, 0):\n",
        "            if live < 0:\n",
        f"{DELAY}::test_after_a_kill_nothing_that_was_delivered_comes_again",
    ),
]
