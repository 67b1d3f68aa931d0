"""S5 concurrent consumption, S6 progress, S7 stuck messages, S8 retry."""

from __future__ import annotations

from mechanisms.mechanism import Mechanism
from mechanisms.of_s01_to_s04 import CACHED, CONCURRENT, EVERY_FORM, INSTANCE, LIFE, MIXED, OPTIONS, PARTS, SHARING

__all__ = ["S05_TO_S08"]

RESULT = "unit/core/consume/test_consume_result.py"
POOL = "unit/client/test_client_listener_pool.py"
PROGRESS = "unit/core/consume/test_consume_progress.py"
TIMEOUT = "unit/core/consume/test_consume_timeout.py"
SCHEDULE = "unit/core/retry/test_retry_schedule.py"
RETRY = "inproc/broker/test_broker_retry.py"
TOLD = "inproc/client/test_client_stuck.py"
SIGNALS = "inproc/client/test_client_signals.py"
RESET = "inproc/client/test_client_reset.py"
POLICY = "inproc/client/test_client_retry_policy.py"
LETTERS = "inproc/client/test_client_dead_letters.py"
COST = "unit/core/consume/test_progress_cost.py"
OURS = "test_our_client_progress.py"
STUCK = f"{CONCURRENT}::test_one_stuck_message_holds_progress_until_its_timeout_and_makes_one_retry_copy"

S05_TO_S08 = [
    Mechanism(
        "S5",
        "what was pulled is cut into batches of consume_message_batch_max_size and given to a pool",
        "A submitConsumeRequest",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_ack_index_splits_a_batch_into_done_and_again "
        f"{CONCURRENT}::test_every_message_is_consumed_once_and_progress_follows",
        EVERY_FORM,
    ),
    Mechanism(
        "S5",
        "no more listeners run at once than the pool has workers, and all of them do",
        "A consumeExecutor",
        "client/listen/thread_listener_pool.py",
        f"{POOL}::test_no_more_than_the_workers_run_at_once_and_all_of_them_do "
        f"{CONCURRENT}::test_a_slow_listener_uses_all_its_workers",
    ),
    Mechanism(
        "S5",
        "dropped before the call: the listener is not called",
        "A ConsumeRequest.run, isDropped",
        "client/listen/concurrent_service.py",
        f"{INSTANCE}::test_messages_that_wait_for_a_worker_are_not_consumed_after_their_queue_was_given_up",
    ),
    Mechanism(
        "S5",
        "dropped during the call: its result changes nothing",
        "A ConsumeRequest.run, 'dropped without process consume result'",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_a_result_that_comes_after_the_queue_was_given_up_changes_nothing",
    ),
    Mechanism(
        "S5",
        "hooks see each call before and after, with its context, and cannot break it",
        "A executeHookBefore, executeHookAfter",
        "client/listen/listener_call.py",
        f"{CONCURRENT}::test_hooks_see_every_call_and_cannot_break_it",
    ),
    Mechanism(
        "S5",
        "a retried message is shown under its origin topic",
        "A resetRetryTopic",
        "client/read/pull_loop.py",
        f"{PARTS}::test_a_pull_is_decoded_with_the_exact_tag_the_limits_and_the_original_topic",
        EVERY_FORM,
    ),
    Mechanism(
        "S5",
        "an exception means: again later",
        "A ConsumeRequest.run, catch; B 方式3",
        "client/listen/listener_call.py",
        f"{CONCURRENT}::test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id",
        EVERY_FORM,
    ),
    Mechanism(
        "S5",
        "None, or an answer that is no status, means: again later (of an `on_message` function, None is success)",
        "A 'consumeMessage return null'; B 方式2",
        "core/consume/consume_result.py",
        f"{RESULT}::test_only_a_status_is_a_success",
        function="read_status",
    ),
    Mechanism(
        "S5",
        "CONSUME_SUCCESS: everything up to ack_index is done, what lies behind goes back",
        "A processConsumeResult, ackIndex; B CONSUME_SUCCESS",
        "core/consume/consume_result.py",
        f"{RESULT}::test_ack_index_counts_only_with_success "
        f"{CONCURRENT}::test_ack_index_splits_a_batch_into_done_and_again",
        function="acked_count",
    ),
    Mechanism(
        "S5",
        "RECONSUME_LATER: the whole batch goes back, whatever ack_index says",
        "B RECONSUME_LATER",
        "core/consume/consume_result.py",
        f"{RESULT}::test_ack_index_counts_only_with_success {RESULT}::test_the_parts_cover_the_batch",
        EVERY_FORM,
        function="acked_count",
    ),
    Mechanism(
        "S5",
        "going back: by the place of the stored message, to the broker that has it (CONSUMER_SEND_MSG_BACK)",
        "A sendMessageBack, consumerSendMessageBack; B RECONSUME_LATER",
        "client/group/send_back.py",
        f"{CONCURRENT}::test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id",
        EVERY_FORM,
    ),
    Mechanism(
        "S5",
        "refused there: a copy is sent to %RETRY%group by the inner producer",
        "A sendMessageBack, catch; B RECONSUME_LATER",
        "client/group/send_back.py",
        f"{CONCURRENT}::test_a_refused_send_back_goes_through_the_inner_producer "
        f"{PARTS}::test_a_retry_copy_keeps_the_id_and_the_users_properties_and_counts_up",
    ),
    Mechanism(
        "S5",
        "no way back at all: consumed again here after 5 s, progress waits for it",
        "A submitConsumeRequestLater; B 延迟5S",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_with_no_way_back_to_the_broker_the_message_is_tried_again_here_after_5_s",
    ),
    Mechanism(
        "S5",
        "broadcasting: what fails is logged and passed",
        "B 广播方式不提供失败重试特性",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_broadcasting_does_not_retry",
    ),
    Mechanism(
        "S5",
        "async listeners run without threads and are retried alike",
        "A consumeExecutor",
        "client/listen/async_listener_pool.py",
        f"{CONCURRENT}::test_async_listeners_run_on_the_loop_and_retry_alike",
    ),
    Mechanism(
        "S5",
        "shutdown waits for running listeners and keeps their results",
        "A ConsumeMessageService",
        "client/listen/concurrent_service.py",
        f"{LIFE}::test_shutdown_waits_for_the_running_listener_and_keeps_its_result",
    ),
    Mechanism(
        "S6",
        "progress of a queue is its smallest unfinished offset",
        "B 消息ACK消费进度; A removeMessage",
        "core/consume/process_queue.py",
        f"{CACHED}::test_the_commit_offset_is_the_lowest_unfinished_message "
        f"{COST}::test_settling_a_message_costs_the_same_with_10_and_with_100_000_in_hand",
        EVERY_FORM,
        function="ProcessQueue.done",
    ),
    Mechanism(
        "S6",
        "one stuck message holds it back, however many behind it are done",
        "B 2101-2200",
        "core/consume/process_queue.py",
        f"{STUCK} {CACHED}::test_the_commit_offset_is_the_lowest_unfinished_message",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
        function="ProcessQueue.done",
    ),
    Mechanism(
        "S6",
        "offsets that a filter left out count as done",
        "B 消息ACK消费进度",
        "core/consume/process_queue.py",
        f"{CACHED}::test_there_is_no_commit_offset_before_the_first_message "
        f"{CACHED}::test_the_commit_offset_counts_gaps_of_filtered_messages_as_done",
        function="ProcessQueue.done",
    ),
    Mechanism(
        "S6",
        "progress in memory never goes back by a result",
        "A updateOffset",
        "core/consume/consume_progress.py",
        f"{PROGRESS}::test_a_corrected_offset_is_frozen_until_the_queue_is_removed "
        f"{PROGRESS}::test_a_concurrent_result_never_moves_progress_back",
        function="ConsumeProgress.update",
    ),
    Mechanism(
        "S6",
        "kept per group and queue, and a new member goes on from there",
        "B consumer group+queue",
        "client/group/offset_store.py",
        f"{SHARING}::test_a_restarted_group_goes_on_where_it_stopped",
        MIXED,
    ),
    Mechanism(
        "S6",
        "written to the broker by the clock and when a queue is given up",
        "A persistAllConsumerOffset; E removeUnnecessaryMessageQueue",
        "client/group/offset_store.py",
        f"{SHARING}::test_progress_is_persisted_every_5_s_and_never_goes_back "
        f"{PROGRESS}::test_everything_owned_is_persisted_each_time_and_the_rest_forgotten",
        EVERY_FORM,
    ),
    Mechanism(
        "S6",
        "broadcasting: a file in Java's format, with a backup that is read when it is broken",
        "A LocalFileOffsetStore",
        "client/group/offset_store.py",
        f"{PARTS}::test_the_offset_file_is_javas_and_is_found_again "
        f"{PARTS}::test_a_broken_offset_file_falls_back_to_its_backup "
        f"{PARTS}::test_a_crash_between_the_two_renames_leaves_the_backup_to_be_read",
        f"{OURS}::test_broadcasting_progress_goes_from_java_to_us_and_back",
    ),
    Mechanism(
        "S6",
        "over a span of 2,000 between the oldest unfinished and the newest cached message a queue is pulled each 50 ms only",
        "B consumeConcurrentlyMaxSpan",
        "core/consume/process_queue.py",
        f"{CACHED}::test_the_span_is_between_the_oldest_unfinished_and_the_newest",
        function="ProcessQueue.span",
    ),
    Mechanism(
        "S6",
        "stored progress wins; only a new group begins where consume_from_where says",
        "B 启动的时候从哪里消费",
        "core/consume/consume_progress.py",
        f"{PROGRESS}::test_stored_progress_wins_and_unknown_progress_is_not_guessed "
        f"{SHARING}::test_a_new_group_begins_where_it_is_told",
        EVERY_FORM,
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "CONSUME_FROM_LAST_OFFSET skips what is there and nothing that comes",
        "B CONSUME_FROM_LAST_OFFSET",
        "core/consume/consume_progress.py",
        f"{SHARING}::test_from_last_offset_skips_what_is_there_and_nothing_that_comes "
        f"{RESET}::test_retries_that_wait_are_not_skipped_by_a_group_that_begins_at_the_end",
        f"{OURS}::test_a_member_without_progress_begins_where_it_is_told",
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "CONSUME_FROM_FIRST_OFFSET takes all that is stored",
        "B CONSUME_FROM_FIRST_OFFSET",
        "core/consume/consume_progress.py",
        f"{PROGRESS}::test_a_new_group_begins_where_it_was_told_to",
        EVERY_FORM,
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "CONSUME_FROM_TIMESTAMP begins at a time of the user's, half an hour ago by default",
        "B CONSUME_FROM_TIMESTAMP",
        "core/consume/consume_progress.py",
        f"{SHARING}::test_from_a_given_timestamp {OPTIONS}::test_consume_timestamp_is_local_time",
        f"{OURS}::test_a_member_without_progress_begins_where_it_is_told",
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "an offset that could not be asked is waited for, not guessed",
        "A computePullFromWhere < 0",
        "core/consume/consume_progress.py",
        f"{SHARING}::test_an_unknown_stored_offset_is_waited_for_not_guessed",
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "a killed member's unfinished messages come again: at least once",
        "B 重复消费",
        "client/group/offset_store.py",
        f"{LIFE}::test_a_listener_that_does_not_end_is_left_and_its_message_comes_again",
        f"{MIXED} test_our_client_in_bad_luck.py::test_a_broker_that_is_killed",
    ),
    Mechanism(
        "S6",
        "an administrator's reset moves running members, pushed (4.9) or by the answer to their next pull (5.x)",
        "B 启动的时候从哪里消费",
        "client/consume/consumer_requests.py",
        f"{RESET}::test_a_reset_to_a_time_gives_everything_from_then_on_again "
        f"{RESET}::test_a_reset_to_the_end_skips_what_is_in_hand_and_a_late_listener_does_not_undo_it",
        f"{OURS}::test_a_reset_by_mqadmin_moves_a_running_member",
    ),
    Mechanism(
        "S7",
        "each message has its own deadline, from the moment its listener was called",
        "B resendAfterIfStillUnAck; B cleanExpiredMsg",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_every_message_has_its_own_deadline",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
        function="_pop_until",
    ),
    Mechanism(
        "S7",
        "it is found at its deadline, not up to two scans of 15 minutes later",
        "B 消费timeout的时间非常不精确",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_a_message_expires_exactly_at_its_limit {STUCK}",
        function="_pop_until",
    ),
    Mechanism(
        "S7",
        "a changed timeout holds at once, also for what runs",
        "B 中途这个consumeTimeout再更新也不会生效",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_a_new_limit_holds_at_once_for_running_messages "
        f"{CONCURRENT}::test_the_consume_timeout_can_be_changed_while_a_message_runs",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
        function="ConsumeTimeout.expired",
    ),
    Mechanism(
        "S7",
        "waiting for a worker is not being stuck",
        "B 消费前会记录一个消费的开始时间",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_messages_that_only_wait_for_a_worker_do_not_time_out",
    ),
    Mechanism(
        "S7",
        "sent back first, then progress moves on: nothing is lost, and nothing behind it comes twice",
        "B 弃车保帅; B ConsumeTooLongChecker",
        "client/listen/concurrent_service.py",
        f"{STUCK} {TOLD}::test_broadcasting_gives_a_stuck_message_up_and_goes_on",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
    ),
    Mechanism(
        "S7",
        "one retry copy, also when the listener ends while or after it is sent back",
        "B ConsumeRequestWithUnAck, finally",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_a_result_in_time_is_settled_and_a_late_one_ignored "
        f"{TIMEOUT}::test_a_result_during_the_send_back_waits_for_it "
        f"{STUCK} "
        f"{TOLD}::test_a_listener_that_ends_late_makes_no_second_copy_whatever_it_answers "
        f"{TOLD}::test_in_a_storm_of_stuck_failing_and_refused_messages_each_delivery_makes_at_most_one_copy",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
        function="ConsumeTimeout.finished",
    ),
    Mechanism(
        "S7",
        "a send-back that failed is tried again after 5 s",
        "B cleanExpiredMsg, catch",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_a_failed_send_back_is_tried_again_after_5_s_whatever_the_limit",
        function="ConsumeTimeout.send_back_failed",
    ),
    Mechanism(
        "S7",
        "nothing finished is kept behind a stuck message",
        "B 2101-2200",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_nothing_finished_is_kept_behind_a_stuck_message",
        function="ConsumeTimeout.finished",
    ),
    Mechanism(
        "S7",
        "the user is told of a stuck call once, with the stack of its listener",
        "B ConsumeTooLongChecker",
        "client/group/stuck_listener.py",
        f"{TOLD}::test_the_user_is_told_of_a_stuck_call_with_its_stack_once_at_its_deadline "
        f"{TOLD}::test_the_stack_of_an_async_listener_goes_down_to_what_it_waits_for "
        f"{TOLD}::test_a_stuck_call_whose_send_back_fails_is_told_of_once",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
    ),
    Mechanism(
        "S8",
        "each group has a retry topic of its own, %RETRY%group",
        "B 重试队列",
        "core/retry/retry_schedule.py",
        f"{SCHEDULE}::test_names_lead_there_and_back "
        f"{RETRY}::test_a_message_sent_back_comes_to_the_retry_topic_after_ten_seconds",
        EVERY_FORM,
    ),
    Mechanism(
        "S8",
        "18 levels from 1 s to 2 h; the first retry takes the third, each next one the next",
        "B 重试次数; B messageDelayLevel",
        "core/retry/retry_schedule.py",
        f"{SCHEDULE}::test_the_default_levels_are_javas "
        f"{SCHEDULE}::test_the_first_retry_waits_10_s_and_the_second_30_s",
        EVERY_FORM,
    ),
    Mechanism(
        "S8",
        "16 retries within 4 hours and 46 minutes",
        "B 重试次数",
        "core/retry/retry_schedule.py",
        f"{SCHEDULE}::test_sixteen_retries_wait_almost_4_hours_and_46_minutes_in_sum",
    ),
    Mechanism(
        "S8",
        "then the dead-letter topic %DLQ%group",
        "B 死信队列",
        "core/retry/retry_schedule.py",
        f"{SCHEDULE}::test_send_back_decides "
        f"{CONCURRENT}::test_a_message_that_never_succeeds_ends_in_the_dead_letter_topic",
        EVERY_FORM,
        function="decide_send_back",
    ),
    Mechanism(
        "S8",
        "the message id stays the same over all tries",
        "B Message ID不会改变",
        "broker/handlers/messages/send_back.py",
        f"{CONCURRENT}::test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id",
        EVERY_FORM,
    ),
    Mechanism(
        "S8",
        "reconsume_times tells the listener which try it is",
        "B 获取消息重试次数",
        "client/read/pull_loop.py",
        f"{CONCURRENT}::test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id",
        EVERY_FORM,
    ),
    Mechanism(
        "S8",
        "a listener may choose the delay, or the dead-letter topic at once",
        "A sendMessageBack, delayLevel",
        "client/group/send_back.py",
        f"{CONCURRENT}::test_a_listener_may_choose_the_delay_or_the_dead_letter_topic "
        f"{SIGNALS}::test_retry_later_chooses_the_wait_of_one_message "
        f"{SIGNALS}::test_dead_letter_goes_straight_to_the_dead_letter_topic",
        f"{OURS}::test_a_listener_chooses_the_level_of_its_retry "
        f"{OURS}::test_dead_letters_of_ours_and_of_java_are_read_and_replayed",
    ),
    Mechanism(
        "S8",
        "limits differ by kind: 16 for concurrent consumption, none for orderly",
        "B 和生产端重试区别",
        "core/retry/retry_schedule.py",
        f"{SCHEDULE}::test_the_limit_of_retries_depends_on_the_kind_of_consumption",
        function="max_reconsume_times",
    ),
    Mechanism(
        "S8",
        "a producer tries twice more at once, at another broker; asynchronous sends too",
        "B 和生产端重试区别",
        "core/produce/send_latency.py",
        "unit/core/produce/test_send_latency.py::test_a_retry_goes_to_another_broker "
        "inproc/client/test_client_producer.py::test_a_refused_send_goes_to_the_other_broker",
        function="QueueRoundRobin._first",
    ),
    Mechanism(
        "S8",
        "where nobody chooses, the waits follow the group's policy of a 5.x broker",
        "B messageDelayLevel",
        "core/retry/retry_policy.py",
        f"{POLICY}::test_the_policy_of_the_group_chooses_the_waits "
        f"{POLICY}::test_many_failures_ask_once_a_minute_and_a_changed_policy_is_seen_then",
        f"{OURS}::test_the_groups_retry_policy_is_followed_where_there_is_one",
        function="ExponentialRetryPolicy.next_delay_ms",
    ),
    Mechanism(
        "S8",
        "dead letters are read, and replayed to the topic they came from as they were first sent",
        "B 死信队列",
        "client/dead_letters/async_dead_letters.py",
        f"{LETTERS}::test_a_replayed_letter_is_the_message_that_was_first_sent "
        f"{LETTERS}::test_replay_all_leaves_out_what_dies_again_meanwhile_and_can_go_on_from_there "
        f"{LETTERS}::test_replay_all_stops_at_the_first_that_fails_and_says_which",
        f"{OURS}::test_dead_letters_of_ours_and_of_java_are_read_and_replayed",
    ),
]
