# SPDX-License-Identifier: Apache-2.0
"""The client: running listeners and taking what they answer."""

from __future__ import annotations

from mutants.mutant import Mutant

__all__ = ["LISTENER_MUTANTS"]

LISTENER_MUTANTS = [
    Mutant(
        "S1",
        "a pool never gets smaller",
        "src/sprocketmq/client/listen/thread_listener_pool.py",
        "            self._to_leave.append(None)\n",
        "            pass\n",
        "tests/unit/client/test_client_listener_pool.py::test_resize_takes_idle_workers_away_and_allows_new_ones",
    ),
    Mutant(
        "S5",
        "a failed message is done without a retry copy",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "            sent = await self._send_back(message, level, reason)",
        "            sent = True",
        "tests/inproc/client/test_client_concurrent.py::test_ack_index_splits_a_batch_into_done_and_again",
    ),
    Mutant(
        "S5",
        "messages wait for the async listener before them",
        "src/sprocketmq/client/listen/async_listener_pool.py",
        "            self._start_tasks(self._workers)\n",
        "            pass\n",
        "tests/unit/client/test_client_listener_pool.py::test_no_more_than_the_workers_run_at_once_and_all_of_them_do",
    ),
    Mutant(
        "S5",
        "a message that nobody took back is forgotten",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "            process_queue.put_back([message])\n",
        "",
        "tests/inproc/client/test_client_concurrent.py::test_with_no_way_back_to_the_broker_the_message_is_tried_again_here_after_5_s",
    ),
    Mutant(
        "S5",
        "shutdown does not wait for listeners",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "        ended = await self._pool.close(timeout_ms)\n",
        "        ended = await self._pool.close(0)\n",
        "tests/inproc/client/test_client_life.py::test_shutdown_waits_for_the_running_listener_and_keeps_its_result",
    ),
    Mutant(
        "S5",
        "a hook sees no call of a listener of single messages",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "        if self._one is not None and not self._group.hooks.consume:\n",
        "        if self._one is not None:\n",
        "tests/inproc/client/test_client_concurrent.py::test_hooks_see_every_call_and_cannot_break_it",
    ),
    Mutant(
        "S5",
        "a result that comes when the queue was given up counts as progress",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "            if process_queue.dropped:\n                self._forget(batch)\n",
        "            if False:\n                self._forget(batch)\n",
        "tests/inproc/client/test_client_concurrent.py::test_a_result_that_comes_after_the_queue_was_given_up_changes_nothing",
    ),
    Mutant(
        "S5",
        "broadcasting sends failures back",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "        process_queue = batch.process_queue\n        if not self._group.clustering:\n",
        "        process_queue = batch.process_queue\n        if False:\n",
        "tests/inproc/client/test_client_concurrent.py::test_broadcasting_does_not_retry",
    ),
    Mutant(
        "S5",
        "what async listeners did is never settled",
        "src/sprocketmq/client/listen/async_listener_pool.py",
        "                finished.append(result)\n                if not self._woken:",
        "                if not self._woken:",
        "tests/inproc/client/test_client_concurrent.py::test_async_listeners_run_on_the_loop_and_retry_alike",
    ),
    Mutant(
        "S5",
        "a worker goes on with what waits for it after the queue was given up",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "        if process_queue.dropped:\n"
        "            return item\n"
        "        one = self._one\n"
        "        if one is None or isinstance(item, Batch):\n"
        "            self._listener.run(",
        "        one = self._one\n        if one is None or isinstance(item, Batch):\n            self._listener.run(",
        "tests/inproc/client/test_client_instance.py::test_messages_that_wait_for_a_worker_are_not_consumed_after_their_queue_was_given_up",
    ),
    Mutant(
        "S7",
        "a stuck call is told of each time its send-back is tried",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "            batch.stuck_reported = True\n",
        "",
        "tests/inproc/client/test_client_stuck.py::test_a_stuck_call_whose_send_back_fails_is_reported_once",
    ),
    Mutant(
        "S7",
        "the late result of a stuck message makes a second copy",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "            if batch.tracked:\n                own = self._own(batch)",
        "            if False:\n                own = self._own(batch)",
        "tests/inproc/client/test_client_concurrent.py::test_one_stuck_message_holds_progress_until_its_timeout_and_makes_one_retry_copy",
    ),
    Mutant(
        "S7",
        "waiting for a worker counts as running",
        "src/sprocketmq/client/listen/concurrent_service.py",
        "            self._pool.submit(process_queue.take(_ALL, now_ms), process_queue)\n",
        "            taken = process_queue.take(_ALL, now_ms)\n"
        "            for message in taken:\n"
        "                self._timeouts.started(message, now_ms)\n"
        "                self._watched[message] = self._tracked[message] = self._batch_of(message, process_queue)\n"
        "                self._tracked[message].tracked = True\n"
        "            self._pool.submit(taken, process_queue)\n",
        "tests/inproc/client/test_client_concurrent.py::test_messages_that_only_wait_for_a_worker_do_not_time_out",
    ),
    Mutant(
        "S8",
        "DeadLetter is retried like any failure",
        "src/sprocketmq/client/listener_signals.py",
        "    delay_level = -1\n",
        "    delay_level = 0\n",
        "tests/inproc/client/test_client_signals.py::test_dead_letter_goes_straight_to_the_dead_letter_topic",
    ),
    Mutant(
        "S10",
        "a long call keeps the calls before it from being recorded",
        "src/sprocketmq/client/listen/orderly_service.py",
        "                turn.settled = ended\n",
        "                continue\n",
        "tests/inproc/client/test_client_orderly_progress.py::test_a_long_call_does_not_keep_the_calls_before_it_from_being_recorded",
    ),
    Mutant(
        "S10",
        "a queue gets a second turn beside the first",
        "src/sprocketmq/client/listen/orderly_service.py",
        "        if self._closing or process_queue in self._turns:\n",
        "        if self._closing:\n",
        "tests/inproc/client/test_client_orderly.py::test_while_a_listener_runs_its_queue_waits_and_the_others_go_on",
    ),
    Mutant(
        "S10",
        "broadcasting in order waits for a lock that nobody gives",
        "src/sprocketmq/client/listen/orderly_service.py",
        "clustering=self._group.clustering",
        "clustering=True",
        "tests/inproc/client/test_client_orderly.py::test_orderly_broadcasting_needs_no_lock",
    ),
    Mutant(
        "S11",
        "direct consumption calls hooks",
        "src/sprocketmq/client/listen/listener_call.py",
        "direct._with_hooks = False",
        "direct._with_hooks = True",
        "tests/inproc/client/test_client_running_info.py::test_one_message_is_consumed_directly_without_any_effect",
    ),
    Mutant(
        "S11",
        "a call that took too long is told as a success",
        "src/sprocketmq/client/listen/listener_call.py",
        "        if 0 < limit_ms <= seen.spent_ms:\n",
        "        if False:\n",
        "tests/inproc/client/test_client_hooks.py::test_a_call_that_took_longer_than_the_consume_timeout_has_timed_out",
    ),
]
