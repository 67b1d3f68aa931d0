# SPDX-License-Identifier: Apache-2.0
"""S9 the broker's side of retry, S10 orderly consumption, S11 statistics."""

from __future__ import annotations

from mechanisms.mechanism import Mechanism
from mechanisms.of_s01_to_s04 import CACHED, CONCURRENT, CURSOR, IN_ORDER, INSTANCE, MIXED, ORDERLY, REBALANCE
from mechanisms.of_s05_to_s08 import RETRY, SCHEDULE, SIGNALS

__all__ = ["S09_TO_S11"]

ORDERLY_PROGRESS = "inproc/client/test_client_orderly_progress.py"
DELAY = "inproc/broker/test_broker_delay.py"
MEMBERS = "inproc/broker/test_broker_members.py"
LOCKS = "unit/core/consume/test_queue_lock.py"
TURN = "unit/core/consume/test_orderly_turn.py"
NUMBERS = "unit/core/test_statistics.py"
RUNNING_INFO = "inproc/client/test_client_running_info.py"
HOOKS = "inproc/client/test_client_hooks.py"
TRACES = "inproc/client/test_client_trace.py"
WATCHED = "test_our_client_watched.py"
JAVA_RETRY = "test_java_clients.py::test_a_message_that_fails_twice_comes_back_with_its_reconsume_times_and_its_id"
JAVA_DEAD = "test_java_clients.py::test_a_message_that_always_fails_ends_in_the_dead_letter_topic"

S09_TO_S11 = [
    Mechanism(
        "S9",
        "the checks have Apache's order: group, permission, retry queues",
        "B Broker端对于回发消息处理",
        "broker/handlers/messages/send_back.py",
        f"{DELAY}::test_each_check_of_send_back_comes_in_apaches_order {RETRY}::test_an_unknown_group_cannot_send_back "
        f"{RETRY}::test_a_group_without_retry_queues_drops_its_failures",
    ),
    Mechanism(
        "S9",
        "the retry topic is created when it is first needed",
        "B createTopicInSendMessageBackMethod",
        "broker/handlers/messages/send_back.py",
        f"{MEMBERS}::test_a_heartbeat_makes_the_retry_topic "
        f"{RETRY}::test_a_message_sent_back_comes_to_the_retry_topic_after_ten_seconds",
        JAVA_RETRY,
    ),
    Mechanism(
        "S9",
        "the broker finds the message by its commit-log offset; if it is not there, the request is refused",
        "B 从commitlog日志文件中查询消息内容",
        "broker/handlers/messages/send_back.py",
        f"{RETRY}::test_a_made_up_commit_log_offset_is_refused "
        f"{RETRY}::test_each_retry_waits_for_the_next_level_and_remembers_the_first_message",
    ),
    Mechanism(
        "S9",
        "RETRY_TOPIC holds the original topic",
        "B RETRY_TOPIC",
        "broker/handlers/messages/send_back.py",
        f"{RETRY}::test_each_retry_waits_for_the_next_level_and_remembers_the_first_message",
        JAVA_RETRY,
    ),
    Mechanism(
        "S9",
        "level 0 becomes 3 + reconsume_times; a requested level is used unchanged",
        "B delayLevel",
        "core/retry/retry_schedule.py",
        f"{SCHEDULE}::test_send_back_decides {RETRY}::test_the_delay_level_asked_for_is_used_as_it_is",
        function="retry_level",
    ),
    Mechanism(
        "S9",
        "over the limit, or with a negative level, the message goes to %DLQ%group, which is created when first needed",
        "B maxReconsumeTimes",
        "broker/handlers/messages/send_back.py",
        f"{RETRY}::test_after_the_last_retry_comes_the_dead_letter_topic "
        f"{RETRY}::test_a_negative_level_asks_for_the_dead_letter_topic_at_once "
        f"{RETRY}::test_without_a_limit_in_the_request_that_of_the_group_counts",
        JAVA_DEAD,
    ),
    Mechanism(
        "S9",
        "until it is due, a message is in SCHEDULE_TOPIC_XXXX, with its real place in REAL_TOPIC and REAL_QID",
        "B SCHEDULE_TOPIC_XXXX",
        "broker/delivery/schedule.py",
        f"{RETRY}::test_a_delayed_message_comes_at_its_time_and_not_before",
        "test_java_clients.py::test_a_delayed_message_arrives_after_its_level",
    ),
    Mechanism(
        "S9",
        "each level has a queue of its own: queue = level - 1; levels do not wait for each other",
        "B delayLevel2QueueId",
        "core/retry/retry_schedule.py",
        f"{SCHEDULE}::test_a_level_too_high_is_the_highest_and_0_is_at_once "
        f"{SCHEDULE}::test_levels_and_queues_of_the_schedule_topic_correspond "
        f"{RETRY}::test_levels_do_not_wait_for_each_other_and_each_keeps_its_order "
        f"{DELAY}::test_a_level_above_the_highest_is_written_down_as_the_highest "
        f"{DELAY}::test_a_refused_delivery_holds_up_its_level_only_and_keeps_its_order",
        function="DelayLevels.clamp",
    ),
    Mechanism(
        "S9",
        "when it is due, a message is stored again in its real topic and wakes the pulls that wait",
        "B DeliverDelayedMessageTimerTask, messageTimeup",
        "broker/delivery/schedule.py",
        f"{RETRY}::test_a_level_that_fires_again_and_again_stays_exact "
        f"{RETRY}::test_a_delayed_message_comes_at_its_time_and_not_before "
        "inproc/broker/test_broker_long_polling.py::test_a_delayed_delivery_wakes_like_a_send "
        f"{DELAY}::test_a_stream_of_messages_is_delivered_some_at_a_time_and_all_within_milliseconds "
        "unit/broker/test_waiting_records.py::test_each_record_is_found_across_files_in_any_order_and_whatever_its_kind",
        "test_java_clients.py::test_a_delayed_message_arrives_after_its_level",
    ),
    Mechanism(
        "S9",
        "the progress of each level survives a restart and a kill",
        "B ScheduleMessageService",
        "broker/delivery/schedule.py",
        f"{DELAY}::test_a_put_that_is_refused_in_the_middle_of_a_step_neither_skips_nor_repeats "
        f"{DELAY}::test_after_a_kill_nothing_that_was_delivered_comes_again "
        f"{DELAY}::test_a_kill_between_a_delivery_and_its_progress_neither_repeats_nor_skips_a_message "
        f"{DELAY}::test_what_was_delivered_before_a_clean_stop_does_not_come_again",
    ),
    Mechanism(
        "S10",
        "the broker's table of locks has one owner per group and queue",
        "E RebalanceLockManager.tryLockBatch",
        "core/consume/queue_lock.py",
        f"{LOCKS}::test_a_lock_belongs_to_one_client_until_it_expires {MEMBERS}::test_a_queue_has_one_owner_per_group",
        f"{IN_ORDER} test_our_client_in_bad_luck.py::test_a_broker_that_is_restarted",
        function="QueueLockTable.try_lock",
    ),
    Mechanism(
        "S10",
        "groups lock the same queue without disturbing each other",
        "E mqLockTable",
        "core/consume/queue_lock.py",
        f"{LOCKS}::test_groups_do_not_disturb_each_other "
        f"{LOCKS}::test_a_group_holds_any_lock_only_while_one_is_not_expired "
        f"{LOCKS}::test_only_the_owner_unlocks",
        function="QueueLockTable.try_lock",
    ),
    Mechanism(
        "S10",
        "a lock expires 60 s after its last renewal; then any member may take it",
        "E REBALANCE_LOCK_MAX_LIVE_TIME",
        "core/consume/queue_lock.py",
        f"{MEMBERS}::test_a_lock_lives_sixty_seconds_from_its_last_renewal "
        f"{LOCKS}::test_a_lock_belongs_to_one_client_until_it_expires "
        f"{MEMBERS}::test_a_clock_that_is_set_ends_no_member_and_no_lock",
        function="QueueLockTable.try_lock",
    ),
    Mechanism(
        "S10",
        "a repeated lock request renews the lock",
        "E isLocked",
        "core/consume/queue_lock.py",
        f"{LOCKS}::test_asking_again_renews",
        function="QueueLockTable.try_lock",
    ),
    Mechanism(
        "S10",
        "only the owner unlocks",
        "E unlockBatch",
        "core/consume/queue_lock.py",
        f"{LOCKS}::test_only_the_owner_unlocks {MEMBERS}::test_only_the_owner_unlocks",
        function="QueueLockTable.unlock",
    ),
    Mechanism(
        "S10",
        "a new queue is locked before it is added; without the lock it waits for the next round",
        "E Assign to new queue",
        "client/consume/rebalancer.py",
        f"{ORDERLY}::test_a_queue_locked_by_another_member_is_not_consumed_until_it_is_free "
        f"{ORDERLY}::test_messages_of_a_queue_come_in_order_one_call_at_a_time",
        IN_ORDER,
    ),
    Mechanism(
        "S10",
        "all locks are renewed every 20 s, the first time after 1 s",
        "E lockMQPeriodically, lockAll",
        "client/consume/rebalancer.py",
        f"{ORDERLY}::test_locks_are_renewed_while_the_consumer_lives",
    ),
    Mechanism(
        "S10",
        "one failed renewal does not stop consumption: a client trusts its lock for 30 s",
        "E isLockExpired",
        "core/consume/queue_lock.py",
        f"{LOCKS}::test_one_renewal_may_fail_and_the_broker_keeps_longer_than_the_client_trusts "
        f"{ORDERLY}::test_a_failed_renewal_request_does_not_stop_consumption_at_once "
        f"{LOCKS}::test_the_local_lock_is_trusted_for_30_s_from_the_request "
        f"{ORDERLY}::test_an_error_answer_to_one_renewal_does_not_end_the_lock "
        f"{ORDERLY}::test_a_lock_counts_from_when_it_was_asked_for",
    ),
    Mechanism(
        "S10",
        "a queue is pulled only while locked, else checked again after pullTimeDelayMillsWhenException (1 s; not the article's 3 s)",
        "E Pull message",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_orderly_pulls_only_with_a_valid_lock_and_rereads_the_offset_once "
        f"{ORDERLY}::test_a_lost_lock_stops_consumption_in_the_middle "
        f"{RUNNING_INFO}::test_an_option_that_is_not_given_is_told_with_its_default "
        f"{CONCURRENT}::test_after_a_failed_pull_the_queue_pauses_as_long_as_the_option_says",
        function="PullCursor._due",
    ),
    Mechanism(
        "S10",
        "the first locked pull reads the offset again, because the former owner may have written progress since",
        "E isLockedFirst",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_orderly_pulls_only_with_a_valid_lock_and_rereads_the_offset_once "
        f"{ORDERLY}::test_a_member_that_takes_over_a_queue_begins_where_the_other_ended",
        MIXED,
        function="PullCursor._due",
    ),
    Mechanism(
        "S10",
        "a queue has one listener call at a time; different queues run at the same time",
        "E messageQueueLock.fetchLockObject",
        "client/listen/orderly_service.py",
        f"{ORDERLY}::test_messages_of_a_queue_come_in_order_one_call_at_a_time "
        f"{ORDERLY}::test_while_a_listener_runs_its_queue_waits_and_the_others_go_on",
        IN_ORDER,
    ),
    Mechanism(
        "S10",
        "messages are taken in offset order when they are consumed, up to the batch size",
        "E takeMessags",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_a_turn_hands_out_batches_in_order_until_nothing_is_pending "
        f"{ORDERLY}::test_a_call_gets_as_many_messages_as_the_batch_size_allows_in_the_order_of_their_offsets "
        f"{CACHED}::test_messages_put_back_are_taken_first_again",
        IN_ORDER,
        function="OrderlyTurn.next",
    ),
    Mechanism(
        "S10",
        "if the queue is dropped, the turn ends and commits nothing",
        "E ConsumeRequest.run, isDropped",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_a_dropped_queue_ends_the_turn_and_commits_nothing "
        f"{ORDERLY}::test_a_dropped_queue_calls_the_listener_no_more_even_for_what_a_worker_has_in_hand "
        f"{ORDERLY}::test_no_call_of_a_portion_begins_after_a_drop_or_without_the_lock "
        f"{CACHED}::test_a_dropped_queue_gives_nothing_out_and_moves_no_progress",
        function="OrderlyTurn.next",
    ),
    Mechanism(
        "S10",
        "if the lock is missing or expired, the queue is locked again before the turn starts anew",
        "E tryLockLaterAndReconsume",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_without_a_lock_a_turn_does_not_begin {TURN}::test_a_lock_that_expires_during_the_turn_ends_it_before_the_next_batch "
        f"{ORDERLY}::test_a_lost_lock_stops_consumption_in_the_middle "
        f"{ORDERLY}::test_a_turn_without_its_lock_asks_for_it_each_3_s_and_begins_anew_when_it_is_granted "
        f"{ORDERLY}::test_no_call_of_a_portion_begins_after_a_drop_or_without_the_lock",
        "test_our_client_in_bad_luck.py::test_a_broker_that_freezes_and_thaws",
        function="OrderlyTurn.next",
    ),
    Mechanism(
        "S10",
        "after a lost lock is regained, consumption continues where another member ended, or with the cached messages "
        "if no other member had the lock (Java continues with them in both cases)",
        "E isLockedFirst; E lockAll, setLocked(false)",
        "core/consume/queue_lock.py",
        f"{LOCKS}::test_a_tenure_lasts_as_long_as_nobody_else_can_have_had_the_lock "
        f"{ORDERLY}::test_a_lock_that_comes_back_begins_where_the_other_member_ended_and_never_sets_it_back "
        f"{ORDERLY}::test_a_queue_locked_again_keeps_its_cache_when_no_other_member_consumed "
        f"{ORDERLY}::test_what_is_cached_is_consumed_as_soon_as_the_lock_comes_back",
        function="LocalQueueLock.granted",
    ),
    Mechanism(
        "S10",
        "progress is not written while another member may hold the lock, nor later if one may have held it meanwhile",
        "E processConsumeResult, updateOffset",
        "client/consume/rebalancer.py",
        f"{ORDERLY}::test_a_result_that_comes_when_another_member_has_the_lock_is_not_written_down "
        f"{ORDERLY}::test_progress_is_not_written_when_a_queue_is_given_up_that_another_member_has_locked "
        f"{ORDERLY}::test_progress_from_before_a_lock_was_lost_is_not_written_after_it_came_back_either "
        f"{ORDERLY}::test_a_call_that_runs_while_the_lock_is_lost_and_comes_back_does_not_set_progress_back "
        f"{LOCKS}::test_a_tenure_lasts_as_long_as_nobody_else_can_have_had_the_lock",
    ),
    Mechanism(
        "S10",
        "a queue that is given up under a running listener stays locked until the listener ends",
        "E Remove queues that no longer belong to",
        "client/consume/rebalancer.py",
        f"{ORDERLY}::test_a_queue_given_up_under_a_long_listener_stays_locked_until_it_ends",
    ),
    Mechanism(
        "S10",
        "a turn gives way after 60 s",
        "E MAX_TIME_CONSUME_CONTINUOUSLY",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_a_turn_gives_way_after_60_s {ORDERLY}::test_a_turn_ends_after_60_s_and_a_new_one_continues",
        function="OrderlyTurn.next",
    ),
    Mechanism(
        "S10",
        "a queue is not removed while its listener runs",
        "E getLockConsume().tryLock",
        "core/group/rebalance.py",
        f"{ORDERLY}::test_a_dropped_queue_calls_the_listener_no_more_even_for_what_a_worker_has_in_hand "
        f"{REBALANCE}::test_a_refused_removal_is_asked_again_next_round",
        function="RebalanceTable.removal_refused",
    ),
    Mechanism(
        "S10",
        "a queue that is given up with cached messages is unlocked 20 s later (unlockDelay), unless it is assigned again before",
        "E unlockDelay",
        "client/consume/rebalancer.py",
        f"{ORDERLY_PROGRESS}::test_a_queue_given_up_with_messages_cached_is_unlocked_20_s_later "
        f"{ORDERLY_PROGRESS}::test_a_queue_that_comes_back_keeps_its_lock "
        f"{ORDERLY_PROGRESS}::test_a_queue_given_up_with_nothing_cached_is_unlocked_at_once",
    ),
    Mechanism(
        "S10",
        "progress is written before a queue is given up, and repeatedly while a running listener delays that",
        "E removeUnnecessaryMessageQueue",
        "client/consume/rebalancer.py",
        f"{ORDERLY_PROGRESS}::test_a_queue_given_up_under_a_running_listener_keeps_what_ended_before "
        f"{ORDERLY_PROGRESS}::test_progress_that_a_broker_did_not_take_is_written_while_the_listener_keeps_the_queue "
        f"{ORDERLY_PROGRESS}::test_shutdown_under_a_running_listener_keeps_what_ended_before",
    ),
    Mechanism(
        "S10",
        "a finished call counts, whatever runs behind it",
        "E processConsumeResult",
        "client/listen/orderly_service.py",
        f"{ORDERLY_PROGRESS}::test_a_long_call_does_not_keep_the_calls_before_it_from_being_recorded "
        f"{ORDERLY_PROGRESS}::test_a_queue_given_up_under_a_running_listener_keeps_what_ended_before "
        f"{ORDERLY_PROGRESS}::test_what_ended_is_recorded_before_each_writing",
    ),
    Mechanism(
        "S10",
        "a member that leaves unlocks its queues, so that the next member continues at once",
        "E removeUnnecessaryMessageQueue",
        "client/consume/rebalancer.py",
        f"{ORDERLY}::test_shutdown_gives_the_locks_back_so_that_the_next_member_goes_on_at_once "
        f"{ORDERLY_PROGRESS}::test_a_member_that_leaves_unlocks_at_once_the_queues_it_released_before",
        MIXED,
    ),
    Mechanism(
        "S10",
        "auto-commit: SUCCESS commits; COMMIT and ROLLBACK count as SUCCESS, with a warning",
        "E processConsumeResult, isAutoCommit",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_with_auto_commit_everything_but_suspend_commits "
        f"{ORDERLY}::test_with_auto_commit_commit_and_rollback_count_as_success_with_one_warning_each",
        IN_ORDER,
        function="OrderlyTurn.settle",
    ),
    Mechanism(
        "S10",
        "SUSPEND_CURRENT_QUEUE_A_MOMENT: the messages are put back, the queue waits, and the same messages are delivered again",
        "E makeMessageToCosumeAgain; B 顺序消息的重试",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_suspend_blocks_the_queue_and_counts_the_try "
        f"{ORDERLY}::test_a_failed_message_blocks_its_queue_and_comes_again_after_the_pause",
        IN_ORDER,
        function="OrderlyTurn._suspend",
    ),
    Mechanism(
        "S10",
        "the pause is 1 s, or what the listener sets, limited to 10 ms to 30 s",
        "E getSuspendCurrentQueueTimeMillis; B 间隔时间为1秒",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_the_pause_is_held_within_10_ms_and_30_s "
        f"{SIGNALS}::test_an_orderly_queue_pauses_for_as_long_as_retry_later_says "
        f"{ORDERLY}::test_a_failed_message_blocks_its_queue_and_comes_again_after_the_pause "
        f"{RUNNING_INFO}::test_an_option_that_is_not_given_is_told_with_its_default",
        function="OrderlyTurn._pause_ms",
    ),
    Mechanism(
        "S10",
        "over the retry limit, a message is dead-lettered, and the queue continues",
        "E checkReconsumeTimes",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_a_message_over_its_limit_is_dead_lettered_and_the_queue_goes_on "
        f"{ORDERLY}::test_a_message_over_the_retry_limit_is_dead_lettered_once_and_the_queue_goes_on",
        IN_ORDER,
        function="OrderlyTurn._suspend",
    ),
    Mechanism(
        "S10",
        "a dead letter that could not be stored blocks the queue, so no message is skipped",
        "E checkReconsumeTimes",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_a_dead_letter_that_could_not_be_stored_blocks_the_queue "
        f"{ORDERLY}::test_a_dead_letter_that_cannot_be_stored_blocks_its_queue",
        function="OrderlyTurn.dead_lettered",
    ),
    Mechanism(
        "S10",
        "without auto-commit: SUCCESS continues without committing, COMMIT commits everything so far",
        "E processConsumeResult, else",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_without_auto_commit_success_goes_on_and_commit_settles_all "
        f"{ORDERLY}::test_without_auto_commit_progress_waits_for_commit_and_rollback_gives_all_again",
        function="OrderlyTurn.settle",
    ),
    Mechanism(
        "S10",
        "without auto-commit: ROLLBACK delivers all uncommitted messages again, after the pause",
        "E processConsumeResult, ROLLBACK",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_without_auto_commit_rollback_brings_all_uncommitted_back",
        function="OrderlyTurn.settle",
    ),
    Mechanism(
        "S10",
        "an exception or an invalid result suspends the queue",
        "E ConsumeRequest.run, catch; B 注意点 2",
        "core/consume/orderly_turn.py",
        f"{TURN}::test_only_a_status_moves_the_queue {TURN}::test_whatever_the_listener_answers_no_message_is_skipped "
        f"{ORDERLY}::test_a_failed_message_blocks_its_queue_and_comes_again_after_the_pause",
        function="read_orderly_status",
    ),
    Mechanism(
        "S10",
        "broadcasting needs no lock",
        "E (broadcast mode)",
        "client/listen/orderly_service.py",
        f"{ORDERLY}::test_orderly_broadcasting_needs_no_lock",
    ),
    Mechanism(
        "S11",
        "pull time and rate per topic",
        "A incPullRT, incPullTPS",
        "core/statistics.py",
        f"{NUMBERS}::test_a_consumers_numbers_are_kept_by_topic {CONCURRENT}::test_statistics_count_what_happened "
        f"{CONCURRENT}::test_a_pull_is_measured_from_its_request_to_its_answer",
        function="ConsumerStatistics.pulled",
    ),
    Mechanism(
        "S11",
        "windows of a minute, an hour and a day, sampled every 10 s, 10 min and hour",
        "A getConsumerStatsManager",
        "core/statistics.py",
        f"{NUMBERS}::test_a_window_shows_what_javas_timers_would_have_sampled "
        f"{NUMBERS}::test_the_consume_time_of_a_quiet_minute_is_that_of_the_hour "
        f"{NUMBERS}::test_a_window_is_a_minute_an_hour_or_a_day_and_moves_by_its_period",
        function="_Item.extend",
    ),
    Mechanism(
        "S11",
        "the statistics of each full minute, hour and day are written to the log",
        "A getConsumerStatsManager",
        "client/consume/running_consumer.py",
        f"{NUMBERS}::test_the_log_has_javas_lines {RUNNING_INFO}::test_the_log_has_the_statistics_of_each_full_minute",
    ),
    Mechanism(
        "S11",
        "listener time, rates of successes and of failures",
        "A incConsumeRT; E incConsumeOKTPS, incConsumeFailedTPS",
        "core/statistics.py",
        f"{NUMBERS}::test_a_steady_rate_is_the_rate {NUMBERS}::test_a_consumers_numbers_are_kept_by_topic "
        f"{CONCURRENT}::test_statistics_count_what_happened",
        function="_Item.totals",
    ),
    Mechanism(
        "S11",
        "failures are counted over an hour",
        "E getConsumerStatsManager",
        "core/statistics.py",
        f"{NUMBERS}::test_failures_are_remembered_for_an_hour",
        function="_Item.totals",
    ),
    Mechanism(
        "S11",
        "running info shows the cached messages, the progress and the lock of each queue",
        "A getConsumerStatsManager",
        "client/consume/running_info.py",
        f"{INSTANCE}::test_running_info_tells_what_is_cached_and_how_far_progress_is "
        f"{RUNNING_INFO}::test_held_queues_are_reported_as_java_counts_them "
        f"{RUNNING_INFO}::test_a_queue_is_told_with_its_messages_its_progress_and_its_lock",
        f"{WATCHED}::test_mqadmin_sees_our_consumers_state_and_where_it_stands",
    ),
    Mechanism(
        "S11",
        "running info shows every option by Java's name and, on request, the stacks of threads and tasks",
        "A getConsumerStatsManager",
        "client/consume/running_info.py",
        f"{RUNNING_INFO}::test_running_info_says_every_option_by_javas_name_and_no_secret "
        f"{RUNNING_INFO}::test_stacks_show_the_lines_that_listeners_execute "
        f"{RUNNING_INFO}::test_an_option_that_is_not_given_is_told_with_its_default "
        f"{RUNNING_INFO}::test_a_pull_consumer_reports_running_info_too",
        f"{WATCHED}::test_mqadmin_sees_our_consumers_state_and_where_it_stands",
    ),
    Mechanism(
        "S11",
        "a message that an administrator has consumed directly moves no progress",
        "A ConsumeMessageService",
        "client/consume/consumer_requests.py",
        f"{INSTANCE}::test_consuming_directly_has_no_effect_on_progress_retries_or_numbers "
        f"{RUNNING_INFO}::test_one_message_is_consumed_directly_without_any_effect "
        f"{INSTANCE}::test_consuming_directly_a_message_that_is_in_hand_moves_no_progress",
        f"{WATCHED}::test_mqadmin_lets_our_listener_run_on_one_message",
    ),
    Mechanism(
        "S11",
        "hooks and trace show how a listener call ended: SUCCESS, TIME_OUT, EXCEPTION, RETURN_NULL, FAILED",
        "E ConsumeReturnType",
        "client/listen/listener_call.py",
        f"{HOOKS}::test_consume_hooks_see_how_a_call_ended "
        f"{HOOKS}::test_a_call_that_took_longer_than_the_consume_timeout_has_timed_out "
        f"{TRACES}::test_a_failed_listener_call_says_how_it_failed "
        f"{TRACES}::test_the_ways_in_which_a_call_ends_have_the_ordinals_of_java",
        f"{WATCHED}::test_mqadmin_reads_what_our_clients_trace",
    ),
    Mechanism(
        "S11",
        "hooks write a message trace of sends, listener calls and ends of transactions to the trace topic, found by id and key",
        "A executeHookBefore, executeHookAfter",
        "client/observe/trace.py",
        f"{TRACES}::test_each_message_has_a_record_that_is_found_by_its_id_and_keys "
        f"{TRACES}::test_a_listener_call_has_two_records_that_belong_together "
        f"{TRACES}::test_the_end_of_a_transaction_is_traced_with_who_asked "
        f"{TRACES}::test_an_administrator_reads_a_messages_trace "
        "unit/wire/test_trace.py::test_the_fields_stand_in_javas_order",
        f"{WATCHED}::test_mqadmin_reads_what_our_clients_trace {WATCHED}::test_our_admin_reads_what_java_clients_trace",
    ),
    Mechanism(
        "S11",
        "the trace never delays a message: surplus records are dropped and counted",
        "A executeHookBefore, executeHookAfter",
        "client/observe/trace.py",
        f"{TRACES}::test_what_comes_too_fast_is_dropped_and_counted "
        f"{TRACES}::test_a_trace_that_cannot_be_stored_changes_nothing",
    ),
]
