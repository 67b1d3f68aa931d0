"""Mutants of the pull consumer: what it has handed out, what of it is done, and where it goes on."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["PULL_CONSUMER_MUTANTS"]

CORE, CLIENT = "src/sprocketmq/core", "src/sprocketmq/client"
UNIT = "tests/unit/core/test_polled_queues.py"
POLLING = "tests/inproc/client/test_client_pull_consumer.py"

PULL_CONSUMER_MUTANTS = [
    Mutant(
        "S6",
        "messages of a poll that was interrupted count as done",
        f"{CLIENT}/consume/pull_consumer.py",
        "self._engine.run(poll, unreceived=self._async._hand_back)",
        "self._engine.run(poll)",
        f"{POLLING}::test_an_interrupted_poll_has_handed_out_nothing_although_its_messages_came_meanwhile",
    ),
    Mutant(
        "S6",
        "messages that come together with the cancellation of their poll are lost",
        f"{CLIENT}/read/poll_service.py",
        "            await asyncio.wait([arrival], timeout=timeout_s)\n",
        "            await asyncio.wait_for(arrival, timeout_s)\n",
        f"{POLLING}::test_a_cancelled_poll_has_handed_out_nothing_however_close_its_messages_are",
    ),
    Mutant(
        "net",
        "a result that came too late for its caller is told twice",
        "src/sprocketmq/net/engine.py",
        "        elif self._has_ended:\n",
        "        elif self._task.done():\n",
        "tests/system/net/test_engine_and_clock.py::"
        "test_a_result_that_came_too_late_for_its_caller_is_told_before_what_he_runs_next",
    ),
    Mutant(
        "S4",
        "what a queue that moved away had handed out is committed over its new owner's progress",
        f"{CORE}/consume/polled_queues.py",
        "if not reading.committed and not reading.process_queue.dropped",
        "if not reading.committed",
        f"{UNIT}::test_a_dropped_process_queue_hands_out_nothing_and_commits_nothing",
    ),
    Mutant(
        "S6",
        "progress follows a filter past messages that are not done",
        f"{CORE}/consume/polled_queues.py",
        "        return reading.committed\n",
        "        return True\n",
        f"{POLLING}::test_progress_follows_a_filter_but_not_past_what_is_not_done",
    ),
    Mutant(
        "S4",
        "a queue that is refilled all the time keeps the others waiting",
        f"{CORE}/consume/polled_queues.py",
        "            del self._ready[queue]\n            if process",
        "            if process",
        f"{UNIT}::test_queues_take_turns_although_one_is_refilled_all_the_time",
    ),
    Mutant(
        "S6",
        "messages under work when an exception leaves the block count as done",
        f"{CLIENT}/consume/pull_consumer.py",
        "await self._end(commit=self._auto_commit and error is None)",
        "await self._end(commit=self._auto_commit)",
        f"{POLLING}::test_messages_under_work_when_an_exception_leaves_the_block_come_again",
    ),
    Mutant(
        "S6",
        "a seek is not followed by the next commit",
        f"{CLIENT}/consume/pull_consumer.py",
        "        self._service(running).queues.sought(queue)\n",
        "",
        f"{POLLING}::test_a_seek_is_no_commit_until_there_is_one",
    ),
    Mutant(
        "S3",
        "a listener for queues hears too late to seek",
        f"{CLIENT}/read/poll_service.py",
        "offset, withheld=unannounced)",
        "offset)",
        f"{POLLING}::test_a_listener_for_queues_may_seek_before_anything_is_handed_out",
    ),
    Mutant(
        "S4",
        "a paused queue is fetched",
        f"{CLIENT}/read/poll_service.py",
        "return queue in self.paused_queues",
        "return False",
        f"{POLLING}::test_a_paused_queue_is_not_fetched_until_it_is_resumed",
    ),
]
