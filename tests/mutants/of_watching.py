"""Watching: metrics of the broker; statistics, trace, hooks, running info, metrics and spans of the client."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["WATCHING_MUTANTS"]

METRICS = "src/sprocketmq/broker/observe/metrics.py"
TESTS = "tests/inproc/broker/test_broker_metrics.py"

WATCHING_MUTANTS: list[Mutant] = [
    Mutant(
        "watching",
        "committed messages count as lag",
        METRICS,
        "lag += max(0, end - committed)",
        "lag += end",
        f"{TESTS}::test_lag_is_what_is_not_committed_and_its_age",
    ),
    Mutant(
        "watching",
        "pulled messages are never in flight",
        METRICS,
        "inflight += max(0, pulled - committed)",
        "inflight += 0",
        f"{TESTS}::test_pulled_messages_are_in_flight_until_they_are_committed",
    ),
]

STATISTICS = "src/sprocketmq/core/statistics.py"
OF_STATISTICS = "tests/unit/core/test_statistics.py"
TRACE = "src/sprocketmq/client/observe/trace.py"
OF_TRACE = "tests/inproc/client/test_client_trace.py"
HOOKS = "src/sprocketmq/client/hooks.py"
OF_HOOKS = "tests/inproc/client/test_client_hooks.py"
OF_RUNNING_INFO = "tests/inproc/client/test_client_running_info.py"

CLIENT_WATCHING_MUTANTS: list[Mutant] = [
    Mutant(
        "S11",
        "a window begins with its first snapshot, not one period before",
        STATISTICS,
        "series.append((at_ms - window.period_ms, 0, 0.0))  # law 3",
        "pass",
        f"{OF_STATISTICS}::test_a_window_shows_what_javas_timers_would_have_sampled",
    ),
    Mutant(
        "S11",
        "the consume time of a quiet minute is nothing",
        STATISTICS,
        "if not consume_rt.sum:",
        "if consume_rt.sum < 0:",
        f"{OF_STATISTICS}::test_the_consume_time_of_a_quiet_minute_is_that_of_the_hour",
    ),
    Mutant(
        "S11",
        "the trace topic is traced, too",
        TRACE,
        "return topic.startswith(CLOUD_TRACE_TOPIC_PREFIX if self._cloud else self._topic)",
        "return False",
        f"{OF_TRACE}::test_the_trace_topic_itself_is_not_traced",
    ),
    Mutant(
        "S11",
        "a batch that is full waits for its 5 s",
        TRACE,
        "elif not self._full and len(waiting) >= self._batch_num:",
        "elif not self._full and len(waiting) > 1_000:",
        f"{OF_TRACE}::test_ten_records_leave_at_once_and_fewer_after_five_seconds",
    ),
    Mutant(
        "S11",
        "begin and end of a listener call do not belong together",
        TRACE,
        "request_id=before.request_id,",
        'request_id="",',
        f"{OF_TRACE}::test_a_listener_call_has_two_records_that_belong_together",
    ),
    Mutant(
        "S11",
        "trace fields in another order than Java's",
        "src/sprocketmq/wire/trace.py",
        "outcome = (record.cost_ms, record.success, record.keys, record.context_code)",
        "outcome = (record.success, record.cost_ms, record.keys, record.context_code)",
        "tests/unit/wire/test_trace.py::test_the_fields_stand_in_javas_order",
    ),
    Mutant(
        "S11",
        "a check that raises is only logged",
        HOOKS,
        "check.check_forbidden(context)",
        "_guarded(check.check_forbidden, context)",
        f"{OF_HOOKS}::test_a_check_forbids_a_send_and_other_hooks_change_nothing_by_raising",
    ),
    Mutant(
        "S11",
        "hooks end in the order in which they began",
        HOOKS,
        "for hook in reversed(self.send):",
        "for hook in self.send:",
        f"{OF_HOOKS}::test_send_hooks_surround_each_send_and_their_properties_travel",
    ),
    Mutant(
        "S11",
        "what a filter took out comes nevertheless",
        "src/sprocketmq/client/read/pull_loop.py",
        "messages = group.hooks.filter_messages(seen)",
        "group.hooks.filter_messages(type(seen)(seen.group, seen.client_id, seen.message_queue, list(messages)))",
        f"{OF_HOOKS}::test_a_filter_hook_takes_messages_out_for_good",
    ),
    Mutant(
        "S11",
        "running info tells secrets",
        "src/sprocketmq/client/consume/running_info.py",
        '"machine_room_resolver"}) | _SECRET',
        '"machine_room_resolver"})',
        f"{OF_RUNNING_INFO}::test_running_info_says_every_option_by_javas_name_and_no_secret",
    ),
    Mutant(
        "S11",
        "a listener that returned nothing said RECONSUME_LATER",
        "src/sprocketmq/client/consume/consumer_requests.py",
        "elif batch.returned_none:",
        "elif False:",
        f"{OF_RUNNING_INFO}::test_one_message_is_consumed_directly_without_any_effect",
    ),
    Mutant(
        "S11",
        "direct consumption calls hooks",
        "src/sprocketmq/client/listen/listener_call.py",
        "direct._with_hooks = False",
        "direct._with_hooks = True",
        f"{OF_RUNNING_INFO}::test_one_message_is_consumed_directly_without_any_effect",
    ),
    Mutant(
        "S11",
        "a failed try counts as a success",
        "src/sprocketmq/client/metrics.py",
        'status = "success" if context.failure is None else "failure"',
        'status = "success"',
        "tests/inproc/client/test_client_metrics.py::test_sends_are_timed_by_topic_and_outcome",
    ),
    Mutant(
        "S11",
        "a listener's span stays behind in its worker",
        "src/sprocketmq/client/observe/tracing.py",
        "self._context.detach(token)",
        "pass",
        "tests/inproc/client/test_client_tracing.py"
        "::test_a_listener_call_is_a_child_of_the_send_which_is_a_child_of_the_callers_span",
    ),
    Mutant(
        "S11",
        "the statistics are not in the log",
        "src/sprocketmq/client/consume/running_consumer.py",
        "                    if statistics_log.isEnabledFor(logging.INFO):\n",
        "                    if False:\n",
        "tests/inproc/client/test_client_running_info.py::test_the_log_has_the_statistics_of_each_full_minute",
    ),
    Mutant(
        "S11",
        "the log has the hour's statistics each minute",
        "src/sprocketmq/client/consume/running_consumer.py",
        "                if now_ms >= due_ms[number]:\n",
        "                if True:\n",
        "tests/inproc/client/test_client_running_info.py::test_the_log_has_the_statistics_of_each_full_minute",
    ),
    Mutant(
        "S11",
        "a listener that returned nothing is told as one that failed",
        "src/sprocketmq/client/listen/listener_call.py",
        "            batch.returned_none = answer is None\n",
        "",
        "tests/inproc/client/test_client_hooks.py::test_consume_hooks_see_how_a_call_ended",
    ),
    Mutant(
        "S11",
        "a call that took too long is told as a success",
        "src/sprocketmq/client/listen/listener_call.py",
        "        if 0 < limit_ms <= seen.spent_ms:\n",
        "        if False:\n",
        "tests/inproc/client/test_client_hooks.py::test_a_call_that_took_longer_than_the_consume_timeout_has_timed_out",
    ),
    Mutant(
        "S11",
        "trace records pile up without end",
        "src/sprocketmq/client/observe/trace.py",
        "        if len(waiting) >= _MAX_WAITING:\n",
        "        if False:\n",
        "tests/inproc/client/test_client_trace.py::test_what_comes_too_fast_is_dropped_and_counted",
    ),
    Mutant(
        "S11",
        "dropped trace records are not counted",
        "src/sprocketmq/client/observe/trace.py",
        "            self.discarded += 1\n",
        "",
        "tests/inproc/client/test_client_trace.py::test_what_comes_too_fast_is_dropped_and_counted",
    ),
    Mutant(
        "watching",
        "nobody sees that connections are refused",
        "src/sprocketmq/broker/ports.py",
        "sum(server.refused_connections for",
        "sum(0 for",
        "tests/inproc/broker/test_broker_metrics.py::test_connections_that_are_refused_or_cut_off_are_counted",
    ),
]
