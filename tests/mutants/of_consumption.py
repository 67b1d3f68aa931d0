"""Mutants of consumption: what listeners, locks, brokers and networks do wrong must cost no message and no order (S4, S5, S10)."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["CONSUMPTION_MUTANTS"]

CORE, CLIENT = "src/sprocketmq/core", "src/sprocketmq/client"
CALL, POOL = f"{CLIENT}/listener_call.py", f"{CLIENT}/listener_pool.py"
CURSOR, LOCK, QUEUE = f"{CORE}/pull_cursor.py", f"{CORE}/queue_lock.py", f"{CORE}/process_queue.py"
LISTENERS = "tests/inproc/client/test_client_bad_listeners.py"
NETWORK = "tests/inproc/client/test_client_bad_network.py"
ORDERLY = "tests/inproc/client/test_client_orderly.py"
CONCURRENT = "tests/inproc/client/test_client_concurrent.py"
PARTS = "tests/unit/client/test_client_parts.py"
POOLS = "tests/unit/client/test_client_listener_pool.py"
UNIT = "tests/unit/core"

CONSUMPTION_MUTANTS = [
    Mutant(
        "S6",
        "what a worker finished is recorded with the last of its stretch only",
        POOL,
        "            finished = seat.finished\n",
        "            finished = seat.finished if seat.left else []\n",
        "tests/system/client/test_progress_kill.py",
    ),
    Mutant(
        "S4",
        "a stuck message does not slow its queue down",
        f"{CLIENT}/pull_loop.py",
        "        self._stuck_at = self.process_queue.min_offset if later.cause is FlowControlCause.SPAN else -1\n",
        "",
        f"{CONCURRENT}::test_a_stuck_message_slows_its_queue_to_a_pull_each_50_ms_and_does_not_stop_it",
    ),
    Mutant(
        "S4",
        "a queue that is full is looked at with each message that is settled",
        f"{CLIENT}/pull_loop.py",
        "            if process_queue.count <= self._count_to_go_on and ",
        "            if ",
        f"{PARTS}::test_a_pull_loop_that_waits_for_the_count_goes_on_when_a_quarter_was_settled",
    ),
    Mutant(
        "S4",
        "a received message shows the limits of its queue to nobody",
        "src/sprocketmq/wire/message.py",
        "            if more := self._more_properties:\n",
        '            if more := b"":\n',
        "tests/unit/wire/test_message.py::test_more_properties_stand_behind_those_of_the_record",
    ),
    Mutant(
        "S4",
        "what is set in a received message is forgotten",
        "src/sprocketmq/wire/record_head.py",
        "    def __set__(self, message: Any, value: Any) -> None:\n        self.slot.__set__(message, value)\n",
        "    def __set__(self, message: Any, value: Any) -> None:\n        pass\n",
        "tests/unit/wire/test_message.py::"
        "test_a_copy_of_a_received_message_has_the_fields_that_nobody_looked_at_and_those_that_were_set",
    ),
    Mutant(
        "S4",
        "a pull that failed in an unforeseen way ends its loop",
        f"{CLIENT}/pull_loop.py",
        "        except Exception as error:  # a bug",
        "        except NotImplementedError as error:  # a bug",
        f"{NETWORK}::test_a_bug_in_one_pull_costs_a_second_and_not_the_queue",
    ),
    Mutant(
        "S4",
        "flow control counts the body that the listener left in its message",
        QUEUE,
        "            size += cached.pop(offset)\n",
        "            cached.pop(offset)\n            size += len(message.body)\n",
        f"{LISTENERS}::test_a_listener_that_takes_its_batch_apart_changes_nothing_of_ours",
    ),
    Mutant(
        "S5",
        "a coroutine that a plain listener returns counts as success and never runs",
        CALL,
        "        if inspect.isawaitable(returned):  # law 2",
        "        if False:  # law 2",
        f"{LISTENERS}::test_an_async_listener_in_any_form_runs_before_its_message_counts_as_done",
    ),
    Mutant(
        "S5",
        "an ack_index that is no number acknowledges the whole batch",
        f"{CORE}/consume_result.py",
        "        context.ack_index = ALL_ACKED\n        status = ConsumeConcurrentlyStatus.RECONSUME_LATER\n",
        "        context.ack_index = ALL_ACKED\n",
        f"{UNIT}/test_consume_result.py::test_what_is_no_number_in_a_context_is_replaced_and_told",
    ),
    Mutant(
        "S5",
        "a worker that raises takes its item with it",
        POOL,
        "                    result = item\n                now_s = clock()\n",
        "                    continue\n                now_s = clock()\n",
        f"{POOLS}::test_an_item_whose_run_raises_is_reported_and_the_next_ones_run",
    ),
    Mutant(
        "S5",
        "workers that are too many stay until they are idle",
        POOL,
        "            if self._to_leave and self._leaves(me):",
        "            if not chunk and self._to_leave and self._leaves(me):",
        f"{POOLS}::test_workers_that_are_too_many_leave_after_the_item_in_hand_and_forget_nothing",
    ),
    Mutant(
        "S5",
        "what waits does not get the new tasks",
        POOL,
        "        self._workers = workers\n        self._start_tasks(workers)\n",
        "        self._workers = workers\n",
        f"{POOLS}::test_new_workers_take_what_waits_already",
    ),
    Mutant(
        "S5",
        "a listener that never waits gets a task per message",
        POOL,
        "        if self._resting and self._pending:\n",
        "        if False:\n",
        f"{POOLS}::test_a_listener_that_never_waits_keeps_one_task_busy",
    ),
    Mutant(
        "S5",
        "messages wait for the async listener before them",
        POOL,
        "            self._start_tasks(self._workers)\n",
        "            pass\n",
        f"{POOLS}::test_no_more_than_the_workers_run_at_once_and_all_of_them_do",
    ),
    Mutant(
        "S5",
        "the time of a call is counted with each report of its worker",
        POOL,
        "                before_s, seat.told_s = seat.told_s, spent_s\n",
        "                before_s = seat.told_s\n",
        f"{POOLS}::test_the_time_of_each_call_is_reported_once",
    ),
    Mutant(
        "S5",
        "a failure of a single message counts as done",
        f"{CLIENT}/concurrent_service.py",
        "            batch.status, batch.context = outcome.status, outcome.context\n",
        "            batch.status = ConsumeConcurrentlyStatus.CONSUME_SUCCESS\n",
        f"{CONCURRENT}::test_of_single_messages_that_came_together_only_the_failed_ones_come_again_and_each_is_counted",
    ),
    Mutant(
        "S5",
        "a hook sees no call of a listener of single messages",
        f"{CLIENT}/concurrent_service.py",
        "        if self._one is not None and not self._group.hooks.consume:\n",
        "        if self._one is not None:\n",
        f"{CONCURRENT}::test_hooks_see_every_call_and_cannot_break_it",
    ),
    Mutant(
        "S11",
        "single messages that succeed are not counted one by one",
        f"{CORE}/statistics.py",
        "        consume_rt.times += count\n",
        "        consume_rt.times += 1\n",
        f"{CONCURRENT}::test_of_single_messages_that_came_together_only_the_failed_ones_come_again_and_each_is_counted",
    ),
    Mutant(
        "S7",
        "the late failure of a stuck single message makes a second copy",
        f"{CLIENT}/concurrent_service.py",
        "        batch = self._watched.pop(message, None) or outcome or ",
        "        batch = outcome or ",
        f"{CONCURRENT}::test_one_stuck_message_holds_progress_until_its_timeout_and_makes_one_retry_copy",
    ),
    Mutant(
        "S7",
        "a call is found running without the moment it began",
        POOL,
        "                seat.started_ms = now_ms()\n                seat.item = item\n                started_s = clock()\n"
        "                try:\n                    result = run(",
        "                seat.item = item\n                started_s = clock()\n"
        "                try:\n                    result = run(",
        f"{POOLS}::test_what_runs_is_found_with_the_moment_it_began",
    ),
    Mutant(
        "S5",
        "a message whose send-back failed in an unforeseen way is in hand for ever",
        f"{CLIENT}/concurrent_service.py",
        "        except Exception:  # law 1: a message",
        "        except NotImplementedError:  # law 1: a message",
        f"{LISTENERS}::test_a_message_that_cannot_be_written_down_for_its_way_back_is_tried_again_here",
    ),
    Mutant(
        "S10",
        "a lock that comes back goes on with what another member has consumed",
        CURSOR,
        "            queue.restart(queue.lock.tenure)\n",
        "",
        f"{UNIT}/test_pull_cursor.py::test_a_lock_that_comes_back_begins_anew_where_another_member_ended",
    ),
    Mutant(
        "S10",
        "after a restart the highest offset of before is progress",
        QUEUE,
        "        self.clear()\n        self.max_offset_seen = -1\n",
        "        self.clear()\n",
        f"{UNIT}/test_process_queue.py::test_after_a_restart_nothing_from_before_counts",
    ),
    Mutant(
        "S10",
        "the lock of a queue that was refused meanwhile counts as held all the time",
        LOCK,
        "        if not self.is_ours(asked_ms):\n            self.tenure += 1\n",
        "        self.tenure = 1\n",
        f"{UNIT}/test_queue_lock.py::test_a_tenure_lasts_as_long_as_nobody_else_can_have_had_the_lock",
    ),
    Mutant(
        "S10",
        "progress is written although another member has the lock",
        f"{CLIENT}/running_consumer.py",
        "        self.rebalancer.forget_progress_of_others()\n",
        "",
        f"{ORDERLY}::test_a_lock_that_comes_back_begins_where_the_other_member_ended_and_never_sets_it_back",
    ),
    Mutant(
        "S10",
        "a queue given up under a long listener is not renewed, and in two hands after 60 s",
        f"{CLIENT}/rebalancer.py",
        "        active.update((queue, one) for queue, one in self._process_queues.items() if one.consuming)\n",
        "",
        f"{ORDERLY}::test_a_queue_given_up_under_a_long_listener_stays_locked_until_it_ends",
    ),
    Mutant(
        "S10",
        "a lock outlives a clock that is set back",
        LOCK,
        "        return not 0 <= now_ms - self.last_lock_ms <= LOCAL_LOCK_MAX_LIVE_MS",
        "        return now_ms - self.last_lock_ms > LOCAL_LOCK_MAX_LIVE_MS",
        f"{UNIT}/test_queue_lock.py::test_a_clock_that_is_set_back_never_makes_a_lock_outlive_the_brokers",
    ),
    Mutant(
        "testing",
        "a mislabelled answer carries the right opaque",
        "src/sprocketmq/testing/faults.py",
        "            stray.opaque = 0x7FFFFFFF - stray.opaque\n",
        "",
        "tests/unit/testing/test_faults.py::test_a_mislabelled_answer_comes_before_the_real_one",
    ),
    Mutant(
        "S5",
        "a result that comes when the queue was given up counts as progress",
        f"{CLIENT}/concurrent_service.py",
        "            if process_queue.dropped:\n                self._forget(batch)\n",
        "            if False:\n                self._forget(batch)\n",
        f"{CONCURRENT}::test_a_result_that_comes_after_the_queue_was_given_up_changes_nothing",
    ),
    Mutant(
        "S5",
        "a message whose send-back is refused is not sent as a copy",
        f"{CLIENT}/send_back.py",
        "        return await self._send_copy(retry_copy(message, self._group, self._max_reconsume_times, level), message)\n",
        "        return False\n",
        f"{CONCURRENT}::test_a_refused_send_back_goes_through_the_inner_producer",
    ),
    Mutant(
        "S5",
        "a retry copy does not count the try",
        f"{CLIENT}/send_back.py",
        "str(message.reconsume_times + 1)",
        "str(message.reconsume_times)",
        "tests/unit/client/test_client_parts.py::test_a_retry_copy_keeps_the_id_and_the_users_properties_and_counts_up",
    ),
    Mutant(
        "S10",
        "a queue gets a second turn beside the first",
        f"{CLIENT}/orderly_service.py",
        "        if self._closing or process_queue in self._turns:\n",
        "        if self._closing:\n",
        f"{ORDERLY}::test_while_a_listener_runs_its_queue_waits_and_the_others_go_on",
    ),
    Mutant(
        "S10",
        "progress from before another member had the lock is written over that member's",
        f"{CLIENT}/rebalancer.py",
        "                if not process_queue.lock.is_ours(now_ms):\n",
        "                if False:\n",
        f"{ORDERLY}::test_a_result_that_comes_when_another_member_has_the_lock_is_not_written_down",
    ),
]
