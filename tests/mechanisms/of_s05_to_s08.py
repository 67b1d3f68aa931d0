# SPDX-License-Identifier: Apache-2.0
"""S5 concurrent consumption, S6 progress, S7 stuck messages, S8 retry."""

from __future__ import annotations

from mechanisms.mechanism import Mechanism
from mechanisms.of_s01_to_s04 import (
    CACHED,
    CONCURRENT,
    EVERY_FORM,
    FLOW,
    INSTANCE,
    LIFE,
    MIXED,
    OPTIONS,
    PARTS,
    RARE,
    RESET,
    SHARING,
)

__all__ = ["S05_TO_S08"]

RESULT = "unit/core/consume/test_consume_result.py"
POOL = "unit/client/test_client_listener_pool.py"
PROGRESS = "unit/core/consume/test_consume_progress.py"
TIMEOUT = "unit/core/consume/test_consume_timeout.py"
SCHEDULE = "unit/core/retry/test_retry_schedule.py"
RETRY = "inproc/broker/test_broker_retry.py"
TOLD = "inproc/client/test_client_stuck.py"
SIGNALS = "inproc/client/test_client_signals.py"
POLICIES = "unit/core/retry/test_retry_policy.py"
POLICY = "inproc/client/test_client_retry_policy.py"
BAD = "inproc/client/test_client_bad_listeners.py"
LETTERS = "inproc/client/test_client_dead_letters.py"
COST = "unit/core/consume/test_progress_cost.py"
OURS = "test_our_client_progress.py"
BATCH_AGAIN = f"{CONCURRENT}::test_after_reconsume_later_every_message_of_a_batch_comes_again_whatever_ack_index_is"
STUCK = f"{CONCURRENT}::test_one_stuck_message_holds_progress_until_its_timeout_and_makes_one_retry_copy"

S05_TO_S08 = [
    Mechanism(
        "S5",
        "pulled messages are divided into batches of consume_message_batch_max_size and given to a pool",
        "A submitConsumeRequest",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_ack_index_splits_a_batch_into_done_and_again "
        f"{CONCURRENT}::test_every_message_is_consumed_once_and_progress_follows "
        f"{CONCURRENT}::test_what_a_pull_brought_is_divided_into_batches_and_the_last_has_the_rest",
        EVERY_FORM,
    ),
    Mechanism(
        "S5",
        "as many listeners run at once as the pool has workers, and no more",
        "A consumeExecutor",
        "client/listen/thread_listener_pool.py",
        f"{POOL}::test_no_more_than_the_workers_run_at_once_and_all_of_them_do "
        f"{POOL}::test_a_stuck_item_does_not_hold_up_the_rest_of_its_chunk_nor_the_report_of_those_before_it "
        f"{CONCURRENT}::test_a_slow_listener_uses_all_its_workers",
    ),
    Mechanism(
        "S5",
        "if the queue was dropped before the call, the listener is not called",
        "A ConsumeRequest.run, isDropped",
        "client/listen/concurrent_service.py",
        f"{INSTANCE}::test_messages_that_wait_for_a_worker_are_not_consumed_after_their_queue_was_given_up",
    ),
    Mechanism(
        "S5",
        "if the queue was dropped during the call, the result changes nothing",
        "A ConsumeRequest.run, 'dropped without process consume result'",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_a_result_that_comes_after_the_queue_was_given_up_changes_nothing "
        f"{CONCURRENT}::test_a_failed_message_that_waits_for_its_send_back_is_not_sent_after_its_queue_was_given_up",
    ),
    Mechanism(
        "S5",
        "hooks run before and after each call, with its context, and their errors do not affect it",
        "A executeHookBefore, executeHookAfter",
        "client/listen/listener_call.py",
        f"{CONCURRENT}::test_hooks_see_every_call_and_cannot_break_it "
        f"{CONCURRENT}::test_of_single_messages_that_came_together_only_the_failed_ones_come_again_and_each_is_counted",
    ),
    Mechanism(
        "S5",
        "the listener sees a retried message under its original topic",
        "A resetRetryTopic",
        "client/consume/pull_loop.py",
        f"{PARTS}::test_a_pull_is_decoded_with_the_exact_tag_the_limits_and_the_original_topic",
        EVERY_FORM,
    ),
    Mechanism(
        "S5",
        "an exception means that the message is delivered again later",
        "A ConsumeRequest.run, catch; B 方式3",
        "client/listen/listener_call.py",
        f"{CONCURRENT}::test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id",
        EVERY_FORM,
    ),
    Mechanism(
        "S5",
        "None, or a result that is not a status, means the same (but None from an `on_message` function means success)",
        "A 'consumeMessage return null'; B 方式2",
        "core/consume/consume_result.py",
        f"{RESULT}::test_only_a_status_is_a_success "
        f"{CONCURRENT}::test_of_single_messages_that_came_together_only_the_failed_ones_come_again_and_each_is_counted",
        function="read_status",
    ),
    Mechanism(
        "S5",
        "CONSUME_SUCCESS: messages up to ack_index are done, those behind it are sent back",
        "A processConsumeResult, ackIndex; B CONSUME_SUCCESS",
        "core/consume/consume_result.py",
        f"{RESULT}::test_ack_index_counts_only_with_success "
        f"{CONCURRENT}::test_ack_index_splits_a_batch_into_done_and_again",
        function="acked_count",
    ),
    Mechanism(
        "S5",
        "RECONSUME_LATER: the whole batch is sent back, whatever ack_index says",
        "B RECONSUME_LATER",
        "core/consume/consume_result.py",
        f"{RESULT}::test_ack_index_counts_only_with_success {RESULT}::test_the_parts_cover_the_batch {BATCH_AGAIN}",
        EVERY_FORM,
        function="acked_count",
    ),
    Mechanism(
        "S5",
        "CONSUMER_SEND_MSG_BACK sends the place of the stored message to the broker that has it",
        "A sendMessageBack, consumerSendMessageBack; B RECONSUME_LATER",
        "client/consume/send_back.py",
        f"{CONCURRENT}::test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id "
        f"{CONCURRENT}::test_a_failed_message_is_sent_back_to_the_broker_that_stores_it",
        EVERY_FORM,
    ),
    Mechanism(
        "S5",
        "if the broker refuses or cannot be reached, the inner producer sends a copy to %RETRY%group",
        "A sendMessageBack, catch; B RECONSUME_LATER",
        "client/consume/send_back.py",
        f"{CONCURRENT}::test_a_refused_send_back_goes_through_the_inner_producer "
        f"{PARTS}::test_a_retry_copy_keeps_the_id_and_the_users_properties_and_counts_up "
        f"{CONCURRENT}::test_copies_of_the_inner_producer_wait_as_long_as_those_of_the_broker "
        "inproc/client/test_client_compressed_copies.py::test_a_message_that_one_member_cannot_open_is_opened_by_another_after_its_retry",
    ),
    Mechanism(
        "S5",
        "if a message cannot be sent back at all, it is consumed again here after 5 s, and progress waits for it",
        "A submitConsumeRequestLater; B 延迟5S",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_with_no_way_back_to_the_broker_the_message_is_tried_again_here_after_5_s "
        f"{BAD}::test_a_message_that_cannot_be_written_down_for_its_way_back_is_tried_again_here",
    ),
    Mechanism(
        "S5",
        "broadcasting: a failed message is logged and skipped",
        "B 广播方式不提供失败重试特性",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_broadcasting_does_not_retry",
    ),
    Mechanism(
        "S5",
        "async listeners run without threads and are retried in the same way",
        "A consumeExecutor",
        "client/listen/async_listener_pool.py",
        f"{CONCURRENT}::test_async_listeners_run_on_the_loop_and_retry_alike {BATCH_AGAIN} "
        f"{BAD}::test_whatever_a_listener_raises_costs_its_message_a_retry_and_nothing_else",
    ),
    Mechanism(
        "S5",
        "shutdown waits for running listeners and keeps their results",
        "A ConsumeMessageService",
        "client/listen/concurrent_service.py",
        f"{LIFE}::test_shutdown_waits_for_the_running_listener_and_keeps_its_result "
        f"{POOL}::test_after_close_nothing_starts_and_what_ran_is_reported",
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
        "one stuck message holds progress back, however many messages behind it are done",
        "B 2101-2200",
        "core/consume/process_queue.py",
        f"{STUCK} {CACHED}::test_the_commit_offset_is_the_lowest_unfinished_message",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
        function="ProcessQueue.done",
    ),
    Mechanism(
        "S6",
        "offsets that a filter removed count as done",
        "B 消息ACK消费进度",
        "core/consume/process_queue.py",
        f"{CACHED}::test_there_is_no_commit_offset_before_the_first_message "
        f"{CACHED}::test_the_commit_offset_counts_gaps_of_filtered_messages_as_done",
        function="ProcessQueue.done",
    ),
    Mechanism(
        "S6",
        "a result never moves progress in memory back",
        "A updateOffset",
        "core/consume/consume_progress.py",
        f"{PROGRESS}::test_a_corrected_offset_is_frozen_until_the_queue_is_removed "
        f"{PROGRESS}::test_a_concurrent_result_never_moves_progress_back",
        function="ConsumeProgress.update",
    ),
    Mechanism(
        "S6",
        "progress is stored per group and queue, and a new member continues from there",
        "B consumer group+queue",
        "client/consume/offset_store.py",
        f"{SHARING}::test_a_restarted_group_goes_on_where_it_stopped",
        MIXED,
    ),
    Mechanism(
        "S6",
        "progress is written to the broker periodically and when a queue is given up",
        "A persistAllConsumerOffset; E removeUnnecessaryMessageQueue",
        "client/consume/offset_store.py",
        f"{SHARING}::test_progress_is_persisted_every_5_s_and_never_goes_back "
        f"{PROGRESS}::test_everything_owned_is_persisted_each_time_and_the_rest_forgotten "
        f"{SHARING}::test_a_restarted_group_goes_on_where_it_stopped",
        EVERY_FORM,
    ),
    Mechanism(
        "S6",
        "broadcasting: progress is in a file in Java's format, with a backup that is read if the file is broken",
        "A LocalFileOffsetStore",
        "client/consume/offset_store.py",
        f"{PARTS}::test_the_offset_file_is_javas_and_is_found_again "
        f"{PARTS}::test_a_broken_offset_file_falls_back_to_its_backup "
        f"{PARTS}::test_a_crash_between_the_two_renames_leaves_the_backup_to_be_read",
        f"{OURS}::test_broadcasting_progress_goes_from_java_to_us_and_back",
    ),
    Mechanism(
        "S6",
        "if the oldest unfinished and the newest cached message are more than 2,000 apart, pulls of the queue wait for 50 ms",
        "B consumeConcurrentlyMaxSpan",
        "core/consume/process_queue.py",
        f"{CACHED}::test_the_span_is_between_the_oldest_unfinished_and_the_newest "
        f"{FLOW}::test_a_stuck_head_pauses_by_span_and_not_in_orderly_consumption "
        f"{CONCURRENT}::test_a_stuck_message_slows_its_queue_to_a_pull_each_50_ms_and_does_not_stop_it",
        function="ProcessQueue.span",
    ),
    Mechanism(
        "S6",
        "stored progress has priority; only a new group begins where consume_from_where says",
        "B 启动的时候从哪里消费",
        "core/consume/consume_progress.py",
        f"{PROGRESS}::test_stored_progress_wins_and_unknown_progress_is_not_guessed "
        f"{SHARING}::test_a_new_group_begins_where_it_is_told "
        f"{SHARING}::test_a_restarted_group_goes_on_where_it_stopped",
        EVERY_FORM,
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "CONSUME_FROM_LAST_OFFSET skips stored messages and no later ones",
        "B CONSUME_FROM_LAST_OFFSET",
        "core/consume/consume_progress.py",
        f"{SHARING}::test_from_last_offset_skips_what_is_there_and_nothing_that_comes "
        f"{RESET}::test_retries_that_wait_are_not_skipped_by_a_group_that_begins_at_the_end",
        f"{OURS}::test_a_member_without_progress_begins_where_it_is_told",
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "CONSUME_FROM_FIRST_OFFSET begins with the oldest stored message",
        "B CONSUME_FROM_FIRST_OFFSET",
        "core/consume/consume_progress.py",
        f"{PROGRESS}::test_a_new_group_begins_where_it_was_told_to "
        f"{RARE}::test_offsets_that_the_queue_does_not_have_are_corrected",
        EVERY_FORM,
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "CONSUME_FROM_TIMESTAMP begins at a time that the user chooses, by default half an hour ago",
        "B CONSUME_FROM_TIMESTAMP",
        "core/consume/consume_progress.py",
        f"{SHARING}::test_from_a_given_timestamp {OPTIONS}::test_consume_timestamp_is_local_time "
        f"{SHARING}::test_without_a_timestamp_a_new_group_begins_half_an_hour_ago "
        f"{PROGRESS}::test_a_new_group_begins_where_it_was_told_to",
        f"{OURS}::test_a_member_without_progress_begins_where_it_is_told",
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "if the stored offset, or the end where a new group begins, cannot be queried, the consumer waits and does not guess",
        "A computePullFromWhere < 0",
        "core/consume/consume_progress.py",
        f"{SHARING}::test_an_unknown_stored_offset_is_waited_for_not_guessed "
        f"{SHARING}::test_a_start_that_cannot_be_computed_is_waited_for_not_guessed",
        function="decide_start",
    ),
    Mechanism(
        "S6",
        "the unfinished messages of a killed member are delivered again: at least once",
        "B 重复消费",
        "client/consume/offset_store.py",
        f"{LIFE}::test_a_listener_that_does_not_end_is_left_and_its_message_comes_again "
        f"{SHARING}::test_a_pull_commits_what_is_finished_and_not_what_was_pulled",
        f"{MIXED} test_our_client_in_bad_luck.py::test_a_broker_that_is_killed",
    ),
    Mechanism(
        "S6",
        "an administrator's reset moves running members, by a push (4.9) or by the answer to their next pull (5.x)",
        "B 启动的时候从哪里消费",
        "client/consume/consumer_requests.py",
        f"{RESET}::test_a_reset_to_a_time_gives_everything_from_then_on_again "
        f"{RESET}::test_a_reset_to_the_end_skips_what_is_in_hand_and_a_late_listener_does_not_undo_it "
        f"{RESET}::test_a_queue_that_was_reset_is_read_again_at_once_and_not_with_the_next_round "
        f"{RESET}::test_an_orderly_queue_is_reset_when_its_listener_has_ended_and_stays_in_order",
        f"{OURS}::test_a_reset_by_mqadmin_moves_a_running_member",
    ),
    Mechanism(
        "S7",
        "each message has its own deadline, which begins with its listener call",
        "B resendAfterIfStillUnAck; B cleanExpiredMsg",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_every_message_has_its_own_deadline {STUCK}",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
        function="_pop_until",
    ),
    Mechanism(
        "S7",
        "a stuck message is found at its deadline, not up to two scans of 15 minutes later",
        "B 消费timeout的时间非常不精确",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_a_message_expires_exactly_at_its_limit {STUCK}",
        function="_pop_until",
    ),
    Mechanism(
        "S7",
        "a changed timeout takes effect at once, also for running messages",
        "B 中途这个consumeTimeout再更新也不会生效",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_a_new_limit_holds_at_once_for_running_messages "
        f"{CONCURRENT}::test_the_consume_timeout_can_be_changed_while_a_message_runs",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
        function="ConsumeTimeout.expired",
    ),
    Mechanism(
        "S7",
        "the time for which a message waits for a worker does not count",
        "B 消费前会记录一个消费的开始时间",
        "client/listen/concurrent_service.py",
        f"{CONCURRENT}::test_messages_that_only_wait_for_a_worker_do_not_time_out",
    ),
    Mechanism(
        "S7",
        "a stuck message is sent back before progress moves on: it is not lost, and no message behind it is delivered twice",
        "B 弃车保帅; B ConsumeTooLongChecker",
        "client/listen/concurrent_service.py",
        f"{STUCK} {TOLD}::test_broadcasting_gives_a_stuck_message_up_and_goes_on "
        f"{TOLD}::test_progress_passes_a_stuck_message_only_when_its_copy_is_stored "
        f"{TOLD}::test_a_stuck_call_whose_send_back_fails_is_reported_once "
        f"{CONCURRENT}::test_messages_that_only_wait_for_a_worker_do_not_time_out",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
    ),
    Mechanism(
        "S7",
        "a stuck message gets one retry copy, also if its listener ends during or after the send-back",
        "B ConsumeRequestWithUnAck, finally",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_a_result_in_time_is_settled_and_a_late_one_ignored "
        f"{TIMEOUT}::test_a_result_during_the_send_back_waits_for_it "
        f"{STUCK} "
        f"{TOLD}::test_a_listener_that_ends_late_makes_no_second_copy_whatever_it_answers "
        f"{TOLD}::test_a_result_that_comes_while_a_send_back_fails_counts "
        f"{TOLD}::test_in_a_storm_of_stuck_failing_and_refused_messages_each_delivery_makes_at_most_one_copy",
        f"{OURS}::test_a_stuck_message_comes_again_once_and_progress_passes_it",
        function="ConsumeTimeout.finished",
    ),
    Mechanism(
        "S7",
        "a send-back that failed is tried again after 5 s",
        "B cleanExpiredMsg, catch",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_a_failed_send_back_is_tried_again_after_5_s_whatever_the_limit "
        f"{TOLD}::test_a_stuck_call_whose_send_back_fails_is_reported_once",
        function="ConsumeTimeout.send_back_failed",
    ),
    Mechanism(
        "S7",
        "finished messages behind a stuck message are not kept",
        "B 2101-2200",
        "core/consume/consume_timeout.py",
        f"{TIMEOUT}::test_nothing_finished_is_kept_behind_a_stuck_message "
        f"{TOLD}::test_of_a_call_that_was_found_running_and_ended_in_time_nothing_is_kept "
        f"{TOLD}::test_a_listener_that_ends_late_makes_no_second_copy_whatever_it_answers "
        f"{CACHED}::test_the_commit_offset_is_the_lowest_unfinished_message",
        function="ConsumeTimeout.finished",
    ),
    Mechanism(
        "S7",
        "a stuck call is reported to the user once, with the stack of its listener",
        "B ConsumeTooLongChecker",
        "client/listen/stuck_listener.py",
        f"{TOLD}::test_a_stuck_call_is_reported_once_at_its_deadline_with_its_stack "
        f"{TOLD}::test_the_stack_of_an_async_listener_goes_down_to_what_it_waits_for "
        f"{TOLD}::test_a_stuck_call_with_a_batch_is_reported_once_with_all_its_messages "
        f"{TOLD}::test_a_stuck_call_whose_send_back_fails_is_reported_once",
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
        "there are 18 levels from 1 s to 2 h; the first retry takes the third, each later one the next",
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
        "after that the message goes to the dead-letter topic %DLQ%group",
        "B 死信队列",
        "core/retry/retry_schedule.py",
        f"{SCHEDULE}::test_send_back_decides "
        f"{CONCURRENT}::test_a_message_that_never_succeeds_ends_in_the_dead_letter_topic",
        EVERY_FORM,
        function="decide_send_back",
    ),
    Mechanism(
        "S8",
        "the message id stays the same for all tries",
        "B Message ID不会改变",
        "broker/handlers/messages/send_back.py",
        f"{CONCURRENT}::test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id",
        EVERY_FORM,
    ),
    Mechanism(
        "S8",
        "reconsume_times shows the listener the number of the try",
        "B 获取消息重试次数",
        "core/retry/retry_schedule.py",
        f"{CONCURRENT}::test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id "
        f"{PARTS}::test_a_retry_copy_keeps_the_id_and_the_users_properties_and_counts_up "
        f"{CONCURRENT}::test_with_no_way_back_to_the_broker_the_message_is_tried_again_here_after_5_s",
        EVERY_FORM,
        function="decide_send_back",
    ),
    Mechanism(
        "S8",
        "a listener may choose the delay, or the dead-letter topic at once",
        "A sendMessageBack, delayLevel",
        "client/consume/send_back.py",
        f"{CONCURRENT}::test_a_listener_may_choose_the_delay_or_the_dead_letter_topic "
        f"{SIGNALS}::test_retry_later_chooses_the_wait_of_one_message "
        f"{SIGNALS}::test_dead_letter_goes_straight_to_the_dead_letter_topic "
        f"{SIGNALS}::test_the_fall_back_keeps_the_chosen_wait_too",
        f"{OURS}::test_a_listener_chooses_the_level_of_its_retry "
        f"{OURS}::test_dead_letters_of_ours_and_of_java_are_read_and_replayed",
    ),
    Mechanism(
        "S8",
        "the retry limit is 16 for concurrent consumption; orderly consumption has none",
        "B 和生产端重试区别",
        "core/retry/retry_schedule.py",
        f"{SCHEDULE}::test_the_limit_of_retries_depends_on_the_kind_of_consumption",
        function="max_reconsume_times",
    ),
    Mechanism(
        "S8",
        "a producer retries twice at once, at another broker, also for asynchronous sends",
        "B 和生产端重试区别",
        "core/produce/send_latency.py",
        "unit/core/produce/test_send_latency.py::test_a_retry_goes_to_another_broker "
        "inproc/client/test_client_producer.py::test_a_refused_send_goes_to_the_other_broker "
        "inproc/client/test_client_producer.py::test_a_failed_send_is_tried_twice_more_at_once_and_each_time_at_another_broker",
        function="QueueRoundRobin._first",
    ),
    Mechanism(
        "S8",
        "if the listener does not choose, the delays follow the group's policy of a 5.x broker",
        "B messageDelayLevel",
        "core/retry/retry_policy.py",
        f"{POLICY}::test_the_policy_of_the_group_chooses_the_waits "
        f"{POLICY}::test_many_failures_ask_once_a_minute_and_a_changed_policy_is_seen_then "
        f"{POLICY}::test_a_listeners_own_choice_wins_and_the_option_switches_it_off "
        f"{POLICIES}::test_exponential_waits_grow_by_the_multiplier_up_to_the_longest "
        f"{POLICIES}::test_customized_waits_begin_at_the_third_and_end_with_the_last",
        f"{OURS}::test_the_groups_retry_policy_is_followed_where_there_is_one",
        function="ExponentialRetryPolicy.next_delay_ms",
    ),
    Mechanism(
        "S8",
        "dead letters can be read, and replayed to their original topic as they were first sent",
        "B 死信队列",
        "client/dead_letters/async_dead_letters.py",
        f"{LETTERS}::test_a_replayed_letter_is_the_message_that_was_first_sent "
        f"{LETTERS}::test_replay_all_leaves_out_what_dies_again_meanwhile_and_can_go_on_from_there "
        f"{LETTERS}::test_replay_all_stops_at_the_first_that_fails_and_says_which "
        f"{LETTERS}::test_letters_are_read_with_where_they_came_from_and_stay "
        f"{LETTERS}::test_a_read_ends_where_the_topic_ended_when_it_began "
        f"{LETTERS}::test_a_replay_goes_to_the_queue_of_its_sharding_key "
        f"{LETTERS}::test_nothing_of_retry_delay_timer_transaction_or_broker_is_replayed "
        "inproc/client/test_client_compressed_copies.py::test_a_dead_letter_that_cannot_be_opened_is_read_and_replayed_as_it_is_stored",
        f"{OURS}::test_dead_letters_of_ours_and_of_java_are_read_and_replayed",
    ),
]
