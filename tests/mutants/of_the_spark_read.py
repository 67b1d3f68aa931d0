"""The Spark read tells the truth, broken on purpose: loss, limits, lag, starts, pace and options."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

SPARK: Final = "src/sprocketmq/spark"
PLAN: Final = "tests/unit/spark/test_plan.py"
LIMITS: Final = "tests/unit/spark/test_trigger_limits.py"
LOST: Final = "tests/inproc/spark/test_stream_losses.py"
LOOKS: Final = "tests/inproc/spark/test_stream_lookups.py"
READER: Final = "src/sprocketmq/client/read/queue_reader.py"
READS: Final = "tests/inproc/client/test_queue_reader.py"

SPARK_READ_MUTANTS = [
    Mutant(
        "spark",
        "a queue that is gone is waited for",
        f"{SPARK}/read/plan.py",
        "        walk.leave(queue, reason)",
        "        pass",
        f"{PLAN}::test_a_queue_that_is_gone_leaves_the_stream_and_names_what_was_not_read",
    ),
    Mutant(
        "spark",
        "a head that goes back is not noticed while it is ahead of the stream",
        f"{SPARK}/read/plan.py",
        "held.max < self._known.get(queue, 0)",
        "False",
        f"{PLAN}::test_a_head_that_goes_back_loses_what_was_known_and_the_stream_reads_on",
    ),
    Mutant(
        "spark",
        "a bounded run ends while a broker is away",
        f"{SPARK}/read/plan.py",
        "    return sorted(short + unheard)",
        "    return sorted(short)",
        f"{LOST}::test_a_bounded_run_does_not_end_before_a_broker_that_was_away_is_read",
    ),
    Mutant(
        "spark",
        "an offset that was lost twice counts twice",
        f"{SPARK}/losses.py",
        "    return first.end is None or second.start <= first.end",
        "    return False",
        "tests/unit/spark/test_losses.py::test_merging_forgets_no_offset_and_holds_none_twice",
    ),
    Mutant(
        "spark",
        "what a batch leaves out is not journaled",
        f"{SPARK}/read/plan.py",
        "origin=walk.origin, lost=losses, late=start.late)",
        "origin=walk.origin, late=start.late)",
        f"{LOST}::test_a_stream_that_may_lose_goes_on_without_a_deleted_topic_and_journals_what_is_missing",
    ),
    Mutant(
        "spark",
        "a task whose topic is deleted leaves the rest of its queues out",
        f"{SPARK}/read/reader.py",
        "        self.left = [entry for entry in rest if entry.queue not in gone]",
        "        self.left = []",
        f"{LOST}::test_a_topic_deleted_under_a_task_is_named_and_the_rest_is_read",
    ),
    Mutant(
        "spark",
        "a task keeps its losses to itself",
        f"{SPARK}/read/reader.py",
        "            tell(options.loss_report, losses)",
        "            pass",
        f"{LOST}::test_offsets_that_went_back_under_a_task_are_named_to_the_end_of_its_range",
    ),
    Mutant(
        "spark",
        "a limit in bytes starves a queue of large messages",
        f"{SPARK}/read/trigger_limits.py",
        "start[queue] + min(count, 1 + int((count - 1) * share))",
        "start[queue] + min(count, int(count * limit.max_bytes / total))",
        f"{LIMITS}::test_a_limit_in_bytes_starves_nobody_and_is_kept_beside_the_other",
    ),
    Mutant(
        "spark",
        "a limit in bytes goes by the size that nobody has seen",
        f"{SPARK}/read/trigger_limits.py",
        "        if own is not None:\n            return own",
        "        if own is not None:\n            return ASSUMED_BYTES",
        f"{LIMITS}::test_a_size_follows_what_comes",
    ),
    Mutant(
        "spark",
        "the message nearest to a time is taken for the first at or after it",
        f"{SPARK}/read/offset_search.py",
        "        while at > held.min:",
        "        while False:",
        f"{LOOKS}::test_a_time_is_found_exactly_whatever_message_near_it_the_broker_names",
    ),
    Mutant(
        "spark",
        "an idle stream asks as often as Spark asks it",
        f"{SPARK}/read/stream_reader.py",
        "            pace.nothing(time.monotonic(), random.uniform(0.75, 1.25), self._watch.questions)",
        "            pass",
        f"{LOOKS}::test_an_idle_stream_asks_its_brokers_a_few_times_a_second_however_often_spark_asks_it",
    ),
    Mutant(
        "spark",
        "an idle event tells the losses of the last batch again",
        f"{SPARK}/read/lag.py",
        "(end.lost if start_text != end_text else ())",
        "end.lost",
        "tests/unit/spark/test_lag.py::test_what_a_batch_lost_is_told_with_it_and_not_with_the_idle_events_after_it",
    ),
    Mutant(
        "spark",
        "lag in time is forgotten",
        f"{SPARK}/read/stream_reader.py",
        "        self._look_at_rest(step)",
        "        pass",
        f"{LOOKS}::test_lag_in_time_is_the_age_of_what_a_batch_leaves",
    ),
    Mutant(
        "spark",
        "offsets of another topic are taken for a start",
        f"{SPARK}/options/named_topics.py",
        "    if strange:",
        "    if False:",
        "tests/unit/spark/test_option_table.py::test_options_against_each_other_are_one_sentence",
    ),
    Mutant(
        "spark",
        "what a broker passes over is skipped in silence",
        READER,
        "            if held > at and not await",
        "            if False and not await",
        f"{READS}::test_messages_that_a_broker_passes_over_are_reported_each_once",
    ),
    Mutant(
        "spark",
        "the holes of a compacted topic are a loss",
        READER,
        '== "COMPACTION"',
        '== "DELETE"',
        f"{READS}::test_the_holes_of_a_compacted_topic_are_its_own_will",
    ),
    Mutant(
        "spark",
        "a hole at the beginning of an answer is not looked for",
        READER,
        "        return max(at, first)",
        "        return at",
        f"{READS}::test_messages_that_a_broker_passes_over_are_reported_each_once",
    ),
    Mutant(
        "spark",
        "a queue of 4.9 whose messages are all gone still begins at the first",
        f"{SPARK}/read/queue_bounds.py",
        "            low = high",
        "            pass",
        f"{LOST}::test_a_queue_that_is_emptied_under_a_running_stream_is_a_loss_before_a_task_misses_it",
    ),
    Mutant(
        "spark",
        "queues that a table before 5.3 does not name are not there",
        f"{SPARK}/read/queue_bounds.py",
        "    if unnamed and answer",
        "    if False and answer",
        "tests/inproc/spark/test_fewer_write_queues.py::test_a_batch_reads_the_queues_that_are_not_written_to",
    ),
    Mutant(
        "spark",
        "0 of a 4.9 broker is taken for what a group has committed",
        f"{SPARK}/read/group_progress.py",
        "            del found[queue]",
        "            pass",
        "tests/inproc/spark/test_stream_starts.py::test_a_broker_of_4_9_that_says_0_for_none_is_asked_for_its_whole_table",
    ),
    Mutant(
        "spark",
        "a tool that asks the member of a stream is refused",
        f"{SPARK}/cluster/cluster.py",
        "            if group in self.members:",
        "            if False:",
        "tests/inproc/spark/test_stream_reader.py::test_a_tool_that_asks_the_member_is_told_where_it_is",
    ),
    Mutant(
        "spark",
        "a queue of 4.9 begins where its broker says",
        f"{SPARK}/read/offset_search.py",
        "        return replace(held, min=there)",
        "        return held",
        f"{LOST}::test_a_queue_of_4_9_begins_at_its_first_message_that_is_there",
    ),
    Mutant(
        "spark",
        "a stream that comes back believes a broker of 4.9",
        f"{SPARK}/read/stream_reader.py",
        "        if not self._began:",
        "        if False:",
        f"{LOST}::test_a_stream_that_was_away_meanwhile_knows_it_when_it_comes_back",
    ),
]
