"""Mutants of progress, stuck messages, retries and dead letters in the client (S6, S7, S8), beyond those in ``of_the_client``."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["PROGRESS_MUTANTS"]

CORE, CLIENT = "src/sprocketmq/core", "src/sprocketmq/client"
STUCK = "tests/inproc/client/test_client_stuck.py"
SIGNALS = "tests/inproc/client/test_client_signals.py"
LETTERS = "tests/inproc/client/test_client_dead_letters.py"
POLICY = "tests/inproc/client/test_client_retry_policy.py"
RESET = "tests/inproc/client/test_client_reset.py"
SUBSCRIPTIONS = "tests/inproc/client/test_client_subscriptions.py"
ORDERLY = "tests/inproc/client/test_client_orderly_progress.py"
COST = "tests/unit/core/test_progress_cost.py"

PROGRESS_MUTANTS = [
    Mutant(
        "S6",
        "each settled message costs a look at all that are in hand",
        f"{CORE}/process_queue.py",
        "        return offsets[0] if offsets else self.max_offset_seen + 1",
        "        return min(cached) if cached else self.max_offset_seen + 1",
        f"{COST}::test_settling_a_message_costs_the_same_with_10_and_with_100_000_in_hand",
    ),
    Mutant(
        "S6",
        "a pushed reset is not carried out",
        f"{CLIENT}/consumer_requests.py",
        "            await self._running.rebalancer.drop_at(queue, offset)",
        "            pass",
        f"{RESET}::test_a_reset_to_a_time_gives_everything_from_then_on_again",
    ),
    Mutant(
        "S6",
        "each of many queues that are given up writes the whole offset file",
        f"{CLIENT}/offset_store.py",
        "            if self._wanted == self._written:\n                return\n",
        "",
        "tests/unit/client/test_client_parts.py::test_giving_up_many_queues_at_once_writes_the_offset_file_twice_at_most",
    ),
    Mutant(
        "S6",
        "a group that begins at the end skips the retries that wait for it",
        f"{CORE}/consume_progress.py",
        "    return StartAt(0) if is_retry_topic(topic) else AskMaxOffset()",
        "    return AskMaxOffset()",
        f"{RESET}::test_retries_that_wait_are_not_skipped_by_a_group_that_begins_at_the_end",
    ),
    Mutant(
        "S10",
        "a running listener keeps progress from being written",
        f"{CLIENT}/rebalancer.py",
        "        # Before anything may refuse:",
        "        if self._locks_needed and process_queue is not None and process_queue.consuming:\n            return False\n"
        "        # Before anything may refuse:",
        f"{ORDERLY}::test_shutdown_under_a_running_listener_keeps_what_ended_before",
    ),
    Mutant(
        "S10",
        "the periodic writing forgets a queue that a running listener keeps from being given up",
        f"{CLIENT}/running_consumer.py",
        "persist_all(self.rebalancer.kept())",
        "persist_all(self.rebalancer.owned())",
        f"{ORDERLY}::test_a_pushed_reset_of_a_busy_queue_holds",
    ),
    Mutant(
        "S10",
        "a second reset of a busy queue is ignored",
        f"{CLIENT}/rebalancer.py",
        "            if queue in self._process_queues:  # also",
        "            if effects:  # also",
        f"{ORDERLY}::test_a_pushed_reset_of_a_busy_queue_holds",
    ),
    Mutant(
        "S10",
        "a long call keeps the calls before it from being recorded",
        f"{CLIENT}/orderly_service.py",
        "                turn.settled = ended\n",
        "                continue\n",
        f"{ORDERLY}::test_a_long_call_does_not_keep_the_calls_before_it_from_being_recorded",
    ),
    Mutant(
        "S10",
        "a queue that comes back loses its lock by the unlock of its life before",
        f"{CLIENT}/rebalancer.py",
        "            self._keep_locked(adds)\n",
        "",
        f"{ORDERLY}::test_a_queue_that_comes_back_keeps_its_lock",
    ),
    Mutant(
        "S1",
        "the connection to a broker that no route names stays open",
        f"{CLIENT}/instance.py",
        "            if address not in known:\n",
        "            if False:\n",
        "tests/inproc/client/test_client_instance.py::test_a_broker_that_no_route_names_any_more_is_disconnected",
    ),
    Mutant(
        "S3",
        "who comes and goes leaves the filter behind that it wanted",
        f"{CLIENT}/running_consumer.py",
        "            self._said[topic] = self.subscriptions[topic] = renewed(subscription, self.group.clock.now_ms())\n",
        "            pass\n",
        f"{SUBSCRIPTIONS}::test_a_member_that_wanted_less_leaves_no_filter_behind",
    ),
    Mutant(
        "S3",
        "members that come and go are noticed only where our share changes",
        f"{CLIENT}/rebalancer.py",
        "            self._regrouped.add(topic)\n",
        "            pass\n",
        f"{SUBSCRIPTIONS}::test_a_member_that_wanted_less_leaves_no_filter_behind",
    ),
    Mutant(
        "S4",
        "a pull that the broker holds keeps its filter for 15 s",
        f"{CLIENT}/pull_loop.py",
        "            self._task.cancel()  # ``_answer`` knows why\n",
        "            pass\n",
        f"{SUBSCRIPTIONS}::test_a_new_filter_holds_at_once_for_what_comes_though_the_clock_stands_still",
    ),
    Mutant(
        "S4",
        "a new filter within the same millisecond is none to the broker",
        f"{CLIENT}/running_consumer.py",
        "                self.subscriptions[topic] = renewed(wanted, said.sub_version + 1)\n",
        "                pass\n",
        f"{SUBSCRIPTIONS}::test_a_new_filter_holds_at_once_for_what_comes_though_the_clock_stands_still",
    ),
    Mutant(
        "S4",
        "after a new filter nothing is pulled any more",
        f"{CORE}/pull_cursor.py",
        "PullReturned | PullFailed | PullOutdated):\n            self.in_flight = False",
        "PullReturned | PullFailed):\n            self.in_flight = False",
        "tests/unit/core/test_pull_cursor.py::test_an_answer_under_another_subscription_is_asked_again_from_the_same_offset",
    ),
    Mutant(
        "S6",
        "other threads are given the live process queues",
        f"{CLIENT}/push_consumer.py",
        "        return self._started().queue_snapshots()\n",
        "        return self._started().rebalancer.table.active()  # type: ignore[return-value]\n",
        "tests/inproc/client/test_client_snapshots.py::test_no_client_shows_a_live_part_of_itself",
    ),
    Mutant(
        "S7",
        "a stuck call is told of each time its send-back is tried",
        f"{CLIENT}/concurrent_service.py",
        "            batch.told = True\n",
        "",
        f"{STUCK}::test_a_stuck_call_whose_send_back_fails_is_told_of_once",
    ),
    Mutant(
        "S7",
        "the stack shows our own machinery instead of the listener",
        f"{CLIENT}/stuck_listener.py",
        "if not _is_own(frame.f_code)), None)",
        "if True), None)",
        f"{STUCK}::test_the_user_is_told_of_a_stuck_call_with_its_stack_once_at_its_deadline",
    ),
    Mutant(
        "S7",
        "of an async listener only the outermost frame is shown",
        f"{CLIENT}/stuck_listener.py",
        "        awaited = (",
        "        awaited = None and (",
        f"{STUCK}::test_the_stack_of_an_async_listener_goes_down_to_what_it_waits_for",
    ),
    Mutant(
        "S7",
        "one stuck message holds broadcasting progress for ever",
        f"{CLIENT}/concurrent_service.py",
        "            self._done(process_queue, [message])  # broadcasting gives it up, as any that failed\n",
        "",
        f"{STUCK}::test_broadcasting_gives_a_stuck_message_up_and_goes_on",
    ),
    Mutant(
        "S7",
        "of a stuck orderly call one is told again and again",
        f"{CLIENT}/stuck_watch.py",
        "                call.told = True\n",
        "",
        f"{STUCK}::test_a_stuck_orderly_call_is_told_of_and_keeps_its_queue_in_order",
    ),
    Mutant(
        "S8",
        "DeadLetter is retried like any failure",
        f"{CLIENT}/listener_signals.py",
        "    delay_level = -1\n",
        "    delay_level = 0\n",
        f"{SIGNALS}::test_dead_letter_goes_straight_to_the_dead_letter_topic",
    ),
    Mutant(
        "S8",
        "a dead letter that goes by the inner producer is retried first",
        f"{CLIENT}/send_back.py",
        "        level = -1 if delay_level < 0 else retry_level(message.reconsume_times, delay_level)",
        "        level = retry_level(message.reconsume_times, delay_level)",
        f"{SIGNALS}::test_dead_letter_goes_straight_to_the_dead_letter_topic",
    ),
    Mutant(
        "S8",
        "a delay is rounded down to a level",
        f"{CORE}/retry_schedule.py",
        "if delay >= min(delay_ms, longest))",
        "if delay > min(delay_ms, longest) // 2)",
        "tests/unit/client/test_listener_signals.py::test_a_delay_becomes_the_lowest_level_that_waits_as_long",
    ),
    Mutant(
        "S8",
        "the group's retry policy is not followed",
        f"{CLIENT}/send_back.py",
        "        if delay_level == 0 and self._retry_policy is not None:",
        "        if False:",
        f"{POLICY}::test_the_policy_of_the_group_chooses_the_waits",
    ),
    Mutant(
        "S8",
        "each failure asks for the retry policy",
        f"{CLIENT}/group_retry_policy.py",
        "now_ms() + _KEPT_MS",
        "now_ms()",
        f"{POLICY}::test_many_failures_ask_once_a_minute_and_a_changed_policy_is_seen_then",
    ),
    Mutant(
        "S8",
        "a replayed message carries its old life with it",
        f"{CLIENT}/dead_letter_message.py",
        "if name not in _NOT_REPLAYED and value",
        "if value",
        f"{LETTERS}::test_nothing_of_retry_delay_timer_transaction_or_broker_is_replayed",
    ),
    Mutant(
        "S8",
        "a replay replays what it made itself",
        f"{CLIENT}/dead_letters.py",
        "                    if not at <= message.queue_offset < end:",
        "                    if message.queue_offset < at:",
        f"{LETTERS}::test_a_read_ends_where_the_topic_ended_when_it_began",
    ),
    Mutant(
        "S8",
        "a replay goes on behind a letter that could not be sent, and forgets it",
        f"{CLIENT}/dead_letters.py",
        "                        break\n",
        "",
        f"{LETTERS}::test_replay_all_stops_at_the_first_that_fails_and_says_which",
    ),
]
