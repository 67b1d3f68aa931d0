# SPDX-License-Identifier: Apache-2.0
"""S1 instance, S2 start, S3 rebalance, S4 pull."""

from __future__ import annotations

from mechanisms.mechanism import Mechanism

__all__ = ["S01_TO_S04"]

LIFE = "inproc/client/test_client_life.py"
INSTANCE = "inproc/client/test_client_instance.py"
SHARING = "inproc/client/test_client_rebalance.py"
BROKER_PULL = "inproc/broker/test_broker_pull.py"
CORRECTED = "test_pull_offsets.py::test_each_offset_outside_of_a_queue_is_corrected_as_apache_does"
CONCURRENT = "inproc/client/test_client_concurrent.py"
ORDERLY = "inproc/client/test_client_orderly.py"
RESET = "inproc/client/test_client_reset.py"
RARE = "inproc/client/test_client_rare_cases.py"
FILTERS = "inproc/client/test_client_filters.py"
OPTIONS = "unit/client/test_client_options.py"
PARTS = "unit/client/test_client_parts.py"
REBALANCE = "unit/core/group/test_rebalance.py"
ALLOCATION = "unit/core/group/test_allocation.py"
CURSOR = "unit/core/consume/test_pull_cursor.py"
FLOW = "unit/core/consume/test_flow_control.py"
ROUTES = "unit/core/produce/test_route_table.py"
CACHED = "unit/core/consume/test_process_queue.py"
TAGS = "unit/core/group/test_subscription.py"
AGAINST = "test_client_against_apache.py"
EVERY_FORM = f"{AGAINST}::test_every_form_of_sending_is_stored_and_consumed_with_retry_and_dead_letter"
IN_ORDER = f"{AGAINST}::test_orderly_consumption_keeps_order_locks_and_dead_letters"
SELECTED = f"{AGAINST}::test_tags_sql_and_polling_select_what_was_asked_for"
ORACLE = "test_allocation_oracle.py::test_every_member_gets_the_queues_that_apaches_classes_give_it"
STORM = "test_mixed_storm.py::test_a_mixed_group_keeps_its_promises_through_joins_leaves_and_kills"
MEMBER = "unit/client/test_instance.py"
POOL = "unit/client/test_client_listener_pool.py"
LONG = "inproc/client/test_client_long_runs.py"
MIXED = "test_mixed_group.py::test_a_java_and_a_python_member_share_the_queues_and_take_over_from_each_other"

S01_TO_S04 = [
    Mechanism(
        "S1",
        "producers and consumers with one instance name share one instance",
        "A start, 2; C MQClientInstance",
        "client/remoting/instance.py",
        f"{LIFE}::test_members_of_one_instance_name_share_one_client_id_and_one_instance",
    ),
    Mechanism(
        "S1",
        "the client id is `ip@instanceName`, followed by `@unitName` if there is one",
        "A start, 1; A cidAll",
        "client/settings/options.py",
        f"{OPTIONS}::test_the_client_id_is_javas",
        MIXED,
    ),
    Mechanism(
        "S1",
        "the default instance name is unique, so that two clients on one machine are two members",
        "A start, 1",
        "client/settings/options.py",
        f"{LIFE}::test_the_default_instance_name_is_unique_per_client "
        f"{OPTIONS}::test_clients_made_within_one_tick_of_the_clock_have_different_ids",
    ),
    Mechanism(
        "S1",
        "an instance has one consumer per group; the second is refused",
        "C registerConsumer",
        "client/remoting/instance.py",
        f"{LIFE}::test_a_second_consumer_of_a_group_needs_an_instance_of_its_own "
        f"{MEMBER}::test_a_group_has_one_consumer_at_a_time_and_an_instance_has_many_groups",
    ),
    Mechanism(
        "S1",
        "an instance starts with its first member and ends with its last",
        "A start, 7; C start",
        "client/remoting/instance.py",
        f"{LIFE}::test_shutdown_leaves_no_thread_no_socket_and_no_task "
        f"{MEMBER}::test_an_instance_works_from_its_first_user_to_its_last",
    ),
    Mechanism(
        "S1",
        "the client tries its name servers in turn until one answers, and keeps that one",
        "A fetchNameServerAddr",
        "client/remoting/name_servers.py",
        f"{PARTS}::test_a_name_server_is_kept_until_it_fails_then_the_next_is_tried "
        f"{PARTS}::test_requests_that_fail_together_move_to_the_next_name_server_not_past_it "
        f"{PARTS}::test_a_name_server_that_does_not_answer_leaves_time_for_the_others",
        "test_our_client_in_bad_luck.py::test_a_frozen_name_server_stops_no_client",
    ),
    Mechanism(
        "S1",
        "routes are requested again every 30 s; a change is noticed by content",
        "A updateTopicRouteInfoFromNameServer",
        "client/remoting/routes.py",
        f"{MEMBER}::test_periodic_work_runs_when_javas_does_also_after_failures "
        f"{SHARING}::test_new_queues_are_found_and_new_topics_waited_for "
        f"{ROUTES}::test_a_route_is_changed_by_content_and_not_by_order",
        "test_our_client_in_bad_luck.py::test_queues_that_come_and_go_under_load",
    ),
    Mechanism(
        "S1",
        "a heartbeat every 30 s sends the groups of the instance to all brokers of all topics in use",
        "A sendHeartbeatToAllBrokerWithLock",
        "client/remoting/instance.py",
        f"{INSTANCE}::test_heartbeats_keep_a_quiet_member_in_its_group "
        f"{MEMBER}::test_a_heartbeat_names_all_groups_and_goes_to_all_brokers_of_all_topics",
        EVERY_FORM,
    ),
    Mechanism(
        "S1",
        "a broker that is in no route any more is forgotten, and no other connection is closed",
        "A cleanOfflineBroker",
        "client/remoting/instance.py",
        f"{INSTANCE}::test_a_broker_that_no_route_names_any_more_is_disconnected "
        f"{MEMBER}::test_only_connections_to_brokers_that_no_route_names_are_closed "
        f"{ROUTES}::test_an_address_is_known_while_a_route_names_it "
        f"{ROUTES}::test_a_route_update_reports_changes_and_keeps_queues",
    ),
    Mechanism(
        "S1",
        "progress is written every 5 s, not with each message; so a message may be delivered twice",
        "A persistAllConsumerOffset",
        "client/remoting/instance.py",
        f"{SHARING}::test_progress_is_persisted_every_5_s_and_never_goes_back "
        f"{MEMBER}::test_periodic_work_runs_when_javas_does_also_after_failures",
        EVERY_FORM,
    ),
    Mechanism(
        "S1",
        "the pool of listeners can be made larger and smaller while it works",
        "A adjustThreadPool",
        "client/listen/thread_listener_pool.py",
        f"{POOL}::test_resize_takes_idle_workers_away_and_allows_new_ones "
        f"{POOL}::test_new_workers_take_what_waits_already "
        f"{POOL}::test_a_pool_that_was_to_shrink_and_grows_again_keeps_its_workers",
    ),
    Mechanism(
        "S1",
        "an inner producer sends the messages that cannot be sent back in any other way",
        "A start, defaultMQProducer",
        "client/consume/send_back.py",
        f"{CONCURRENT}::test_a_refused_send_back_goes_through_the_inner_producer",
    ),
    Mechanism(
        "S1",
        "a member that leaves says so, and the brokers unregister it at once",
        "A MQClientInstance",
        "client/remoting/instance.py",
        f"{LIFE}::test_a_consumer_that_shuts_down_unregisters_at_once "
        f"{LIFE}::test_clients_that_shut_down_unregister_at_all_brokers "
        "inproc/client/test_client_shutdown.py::test_a_late_heartbeat_does_not_add_a_member_that_has_left",
        MIXED,
    ),
    Mechanism(
        "S1",
        "a list of name servers that is not fixed, and no other, is looked up again every two minutes",
        "A fetchNameServerAddr",
        "client/remoting/name_servers.py",
        f"{PARTS}::test_an_address_server_is_asked_before_the_first_request_and_again_for_a_new_list "
        f"{INSTANCE}::test_name_servers_that_moved_are_found_through_the_environment "
        f"{MEMBER}::test_periodic_work_runs_when_javas_does_also_after_failures "
        f"{MEMBER}::test_a_list_of_name_servers_that_was_given_is_not_read_again",
    ),
    Mechanism(
        "S1",
        "once a minute, the size of the pool is adapted to the number of messages that wait at the brokers",
        "A adjustThreadPoolNumsThreshold",
        "client/consume/running_consumer.py",
        f"{INSTANCE}::test_a_listener_pool_grows_while_much_waits_at_the_brokers_and_shrinks_afterwards "
        f"{MEMBER}::test_periodic_work_runs_when_javas_does_also_after_failures",
    ),
    Mechanism(
        "S1",
        "an error in a periodic task affects no other task and no other consumer",
        "A startScheduledTask",
        "client/remoting/instance.py",
        f"{INSTANCE}::test_one_consumers_failure_keeps_no_other_from_its_periodic_work "
        f"{INSTANCE}::test_a_rebalance_that_hangs_holds_up_no_other_group "
        f"{MEMBER}::test_periodic_work_runs_when_javas_does_also_after_failures "
        f"{MEMBER}::test_a_member_that_fails_is_asked_again_and_keeps_no_other_from_its_work "
        f"{MEMBER}::test_a_member_that_hangs_keeps_no_other_from_its_work",
    ),
    Mechanism(
        "S1",
        "a forked child does not use its parent's clients: it gets an error, or creates its own",
        "C MQClientInstance",
        "net/process/fork.py",
        "system/net/test_fork.py::test_a_forked_child_cannot_use_its_parents_clients_and_makes_its_own "
        "system/net/test_fork.py::test_async_clients_and_an_own_server_are_left_to_the_parent_too "
        f"{LIFE}::test_the_copy_in_a_forked_child_stops_nothing",
    ),
    Mechanism(
        "S2",
        "a configuration that cannot work is refused with one sentence, before anything is opened",
        "A start (checkConfig)",
        "client/settings/validators.py",
        f"{OPTIONS}::test_a_mistake_is_one_sentence "
        f"{OPTIONS}::test_each_number_is_taken_up_to_its_limits_and_refused_beyond_them "
        f"{LIFE}::test_start_refuses_what_cannot_work",
    ),
    Mechanism(
        "S2",
        "the group's retry topic is subscribed in addition to the user's topics, but not when broadcasting",
        "B copySubscription",
        "client/consume/running_consumer.py",
        f"{LIFE}::test_running_info_and_direct_consumption_are_served "
        f"{CONCURRENT}::test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id "
        f"{CONCURRENT}::test_broadcasting_does_not_retry",
        EVERY_FORM,
    ),
    Mechanism(
        "S2",
        "progress is stored at the broker when clustering, and in a file when broadcasting",
        "A start, 5 (OffsetStore)",
        "client/consume/running_consumer.py",
        f"{CONCURRENT}::test_every_message_is_consumed_once_and_progress_follows "
        f"{SHARING}::test_broadcasting_gives_every_member_everything_and_keeps_progress_in_a_file",
        EVERY_FORM,
    ),
    Mechanism(
        "S2",
        "the kind of the listener decides between concurrent and orderly consumption",
        "A start, 6",
        "client/consume/async_push_consumer.py",
        f"{ORDERLY}::test_the_kind_of_the_listener_decides_whether_queues_are_locked_and_consumed_in_order "
        f"{ORDERLY}::test_a_failed_message_blocks_its_queue_and_comes_again_after_the_pause",
        f"{EVERY_FORM} {IN_ORDER}",
    ),
    Mechanism(
        "S2",
        "routes are fetched before the start returns; if no name server answers, the start fails and leaves nothing running",
        "A start, 8 (updateTopicSubscribeInfoWhenSubscriptionChanged)",
        "client/consume/running_consumer.py",
        f"{SHARING}::test_a_consumer_that_cannot_reach_a_name_server_says_which_and_leaves_nothing",
    ),
    Mechanism(
        "S2",
        "the consumer asks a broker whether it understands each filter that is not one of tags",
        "A start, 8 (checkClientInBroker)",
        "client/consume/running_consumer.py",
        f"{FILTERS}::test_a_wrong_condition_is_an_error_at_the_start",
        SELECTED,
    ),
    Mechanism(
        "S2",
        "heartbeat and rebalance run at once, so messages that already wait are consumed at once",
        "A start, 8 (rebalanceImmediately)",
        "client/consume/running_consumer.py",
        f"{CONCURRENT}::test_messages_that_wait_already_are_consumed_too",
        EVERY_FORM,
    ),
    Mechanism(
        "S3",
        "a rebalance runs every 20 s, and at once when the broker reports that the group changed",
        "A RebalanceService.run",
        "client/remoting/instance.py",
        f"{SHARING}::test_a_member_that_leaves_is_replaced_at_once "
        f"{MEMBER}::test_a_consumer_is_rebalanced_each_20_s_and_each_second_while_it_has_not_what_it_should_have",
        MIXED,
    ),
    Mechanism(
        "S3",
        "topics are rebalanced 16 at a time (Apache: one after the other); an error in one does not affect the others",
        "A doRebalance",
        "client/consume/rebalancer.py",
        f"{SHARING}::test_a_topic_that_cannot_be_rebalanced_keeps_no_other_from_it "
        f"{SHARING}::test_a_topic_that_takes_long_holds_up_no_other_and_one_that_fails_ends_the_round_when_the_others_have_ended "
        f"{REBALANCE}::test_rebalance_of_one_topic_leaves_the_others_alone",
    ),
    Mechanism(
        "S3",
        "the queues of topics that are no longer subscribed are given up",
        "A truncateMessageQueueNotMyTopic",
        "core/group/rebalance.py",
        f"{REBALANCE}::test_a_topic_no_longer_subscribed_is_dropped_whole "
        f"{SHARING}::test_unsubscribing_gives_the_queues_up_and_subscribing_takes_them",
        function="RebalanceTable.subscribed",
    ),
    Mechanism(
        "S3",
        "AVG (the default): contiguous runs; the first members get one queue more",
        "A AllocateMessageQueueAveragely",
        "core/group/allocation.py",
        f"{ALLOCATION}::test_avg_gives_contiguous_runs_and_the_first_get_one_more "
        f"{ALLOCATION}::test_avg_is_javas_formula "
        f"{OPTIONS}::test_the_defaults_are_javas",
        f"{MIXED} {ORACLE}",
        function="AllocateAveragely.__call__",
    ),
    Mechanism(
        "S3",
        "AVG_BY_CIRCLE: dealt like cards",
        "A 负载均衡实现 (strategies)",
        "core/group/allocation.py",
        f"{ALLOCATION}::test_by_circle_assigns_the_queues_to_the_clients_in_turn "
        "inproc/client/test_client_rebalance.py::test_three_strategies_share_the_same_queues",
        ORACLE,
        function="AllocateAveragelyByCircle.__call__",
    ),
    Mechanism(
        "S3",
        "CONSISTENT_HASH: when a member joins, queues move only to that member",
        "A 负载均衡实现 (strategies)",
        "core/group/allocation.py",
        f"{ALLOCATION}::test_consistent_hash_moves_queues_only_to_a_newcomer "
        f"{ALLOCATION}::test_the_ring_hashes_are_javas "
        f"{ALLOCATION}::test_consistent_hash_agrees_with_a_ring_walked_by_hand "
        f"{ALLOCATION}::test_all_six_strategies_are_found_by_javas_names "
        "inproc/client/test_client_rebalance.py::test_three_strategies_share_the_same_queues",
        ORACLE,
        function="AllocateByConsistentHash.__call__",
    ),
    Mechanism(
        "S3",
        "CONFIG: the queues that the user named",
        "A 负载均衡实现 (strategies)",
        "core/group/allocation.py",
        f"{ALLOCATION}::test_the_config_is_what_the_user_set "
        "inproc/client/test_client_rebalance.py::test_strategies_with_arguments_are_options",
        ORACLE,
        function="AllocateByConfig.__call__",
    ),
    Mechanism(
        "S3",
        "MACHINE_ROOM: queues of named rooms only",
        "A 负载均衡实现 (strategies)",
        "core/group/allocation.py",
        f"{ALLOCATION}::test_machine_room_shares_only_the_named_rooms "
        "inproc/client/test_client_rebalance.py::test_strategies_with_arguments_are_options",
        ORACLE,
        function="AllocateByMachineRoom.__call__",
    ),
    Mechanism(
        "S3",
        "MACHINE_ROOM_NEARBY: the queues of a room go to its members, those of a room without members to all",
        "A 负载均衡实现 (strategies)",
        "core/group/allocation.py",
        f"{ALLOCATION}::test_nearby_keeps_to_its_room_and_shares_rooms_without_consumers "
        f"{ALLOCATION}::test_all_six_strategies_are_found_by_javas_names "
        "inproc/client/test_client_rebalance.py::test_strategies_with_arguments_are_options",
        ORACLE,
        function="AllocateMachineRoomNearby.__call__",
    ),
    Mechanism(
        "S3",
        "members do not communicate: the same inputs in the same order give the same shares everywhere, also in Java",
        "A cidAll.indexOf",
        "core/group/allocation.py",
        f"{ALLOCATION}::test_the_shares_partition_the_queues "
        f"{ALLOCATION}::test_names_are_sorted_by_utf16_units_as_java_does "
        f"{ALLOCATION}::test_queues_are_sorted_by_topic_then_broker_then_number",
        f"{MIXED} {STORM}",
        function="allocate",
    ),
    Mechanism(
        "S3",
        "a member that the broker does not list yet takes no queue",
        "A cidAll.indexOf",
        "core/group/allocation.py",
        f"{ALLOCATION}::test_a_client_the_broker_does_not_list_gets_nothing "
        f"{ALLOCATION}::test_a_function_is_not_asked_for_a_client_that_the_broker_does_not_list "
        f"{SHARING}::test_a_member_that_the_broker_does_not_list_keeps_its_queues_and_takes_no_others",
        function="allocate",
    ),
    Mechanism(
        "S3",
        "a queue that goes to another member is dropped at once: it is neither pulled nor consumed any more",
        "A updateProcessQueueTableInRebalance; E Remove queues that no longer belong to",
        "core/group/rebalance.py",
        f"{REBALANCE}::test_a_reassigned_queue_is_dropped_at_once_and_leaves_when_removed "
        f"{INSTANCE}::test_messages_that_wait_for_a_worker_are_not_consumed_after_their_queue_was_given_up",
        MIXED,
        function="RebalanceTable._drop",
    ),
    Mechanism(
        "S3",
        "the progress of a queue is written before the queue is given up",
        "A removeUnnecessaryMessageQueue",
        "client/consume/rebalancer.py",
        f"{SHARING}::test_a_restarted_group_goes_on_where_it_stopped "
        f"{ORDERLY}::test_a_member_that_takes_over_a_queue_begins_where_the_other_ended",
        MIXED,
    ),
    Mechanism(
        "S3",
        "a queue without a pull for 120 s is dropped and added again",
        "A isPullExpired",
        "core/group/rebalance.py",
        f"{REBALANCE}::test_an_expired_pull_drops_the_queue_and_brings_it_back "
        f"{REBALANCE}::test_the_time_without_a_pull_begins_when_the_queue_was_added "
        f"{CACHED}::test_a_pull_is_expired_after_120_s_without_a_look "
        f"{CURSOR}::test_a_due_queue_is_pulled_from_its_next_offset_once",
        function="RebalanceTable.assigned",
    ),
    Mechanism(
        "S3",
        "a new queue is pulled only when its first offset is known",
        "A computePullFromWhere",
        "core/group/rebalance.py",
        f"{REBALANCE}::test_a_queue_is_active_only_after_its_start_offset_is_known "
        f"{REBALANCE}::test_an_add_that_finishes_after_the_queue_was_lost_is_void "
        f"{SHARING}::test_an_unknown_stored_offset_is_waited_for_not_guessed "
        f"{SHARING}::test_a_start_that_cannot_be_computed_is_waited_for_not_guessed",
    ),
    Mechanism(
        "S3",
        "a queue that could not be added is tried again in the next round",
        "A 'add new mq failed'",
        "core/group/rebalance.py",
        f"{REBALANCE}::test_a_failed_add_is_tried_again_in_the_next_round "
        f"{SHARING}::test_an_unknown_stored_offset_is_waited_for_not_guessed "
        f"{ORDERLY}::test_a_queue_locked_by_another_member_is_not_consumed_until_it_is_free",
        function="RebalanceTable.add_failed",
    ),
    Mechanism(
        "S3",
        "broadcasting: every member reads every queue",
        "A 负载均衡实现 (BROADCASTING)",
        "client/consume/rebalancer.py",
        f"{SHARING}::test_broadcasting_gives_every_member_everything_and_keeps_progress_in_a_file",
    ),
    Mechanism(
        "S3",
        "if a user's strategy fails, the member keeps its queues",
        "A 负载均衡实现 (strategies)",
        "client/consume/rebalancer.py",
        f"{SHARING}::test_a_strategy_that_fails_takes_nothing_away_and_is_asked_again",
    ),
    Mechanism(
        "S3",
        "when members join or leave, each sends its subscription again with a newer version, as the broker uses the newest",
        "A updateProcessQueueTableInRebalance (changed)",
        "client/consume/running_consumer.py",
        "inproc/client/test_client_subscriptions.py::test_the_narrower_filter_of_a_member_that_left_does_not_stay "
        "inproc/client/test_client_subscriptions.py::"
        "test_a_new_filter_holds_at_once_for_what_comes_though_the_clock_stands_still "
        f"{INSTANCE}::test_heartbeats_keep_a_quiet_member_in_its_group "
        "inproc/broker/test_broker_members.py::test_an_older_subscription_does_not_replace_a_newer_one",
    ),
    Mechanism(
        "S3",
        "through many joins and leaves no message is lost, order is kept, and no resource leaks",
        "A 负载均衡实现 (strategies)",
        "client/consume/rebalancer.py",
        f"{LONG}::test_rebalances_under_load_lose_nothing_keep_order_and_leave_nothing_behind "
        f"{SHARING}::test_from_last_offset_skips_what_is_there_and_nothing_that_comes "
        f"{ORDERLY}::test_a_queue_given_up_under_a_long_listener_stays_locked_until_it_ends "
        "inproc/client/test_client_orderly_progress.py::test_a_queue_given_up_with_messages_cached_is_unlocked_20_s_later "
        f"{CONCURRENT}::test_a_limit_per_topic_is_shared_by_the_queues_that_are_owned_now "
        f"{ORDERLY}::test_a_queue_locked_by_another_member_is_not_consumed_until_it_is_free",
        STORM,
    ),
    Mechanism(
        "S3",
        "requests for a rebalance are merged: at least a second lies between the end of a round and the beginning of the next",
        "A RebalanceService.run (5.x: minInterval)",
        "core/coalesced_runs.py",
        "unit/core/test_coalesced_runs.py::test_runs_keep_the_interval_and_each_request_is_followed_by_a_run "
        "system/client/test_storms.py::test_consumers_that_wait_for_missing_topics_ask_once_a_second_each",
        function="CoalescedRuns.end",
    ),
    Mechanism(
        "S4",
        "a push consumer pulls: each queue has a loop, in which the next pull follows the answer",
        "C PullMessageService; A PullMessageService.run",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_found_messages_are_cached_dispatched_and_the_next_pull_follows_at_once "
        f"{CURSOR}::test_without_messages_progress_moves_only_when_nothing_is_cached "
        f"{CONCURRENT}::test_messages_that_wait_already_are_consumed_too",
        EVERY_FORM,
        function="PullCursor._returned",
    ),
    Mechanism(
        "S4",
        "a queue has one pull at a time, from its next offset",
        "C PullRequest",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_a_due_queue_is_pulled_from_its_next_offset_once",
        function="PullCursor._due",
    ),
    Mechanism(
        "S4",
        "a dropped queue's loop ends for good",
        "C pullMessage, isDropped",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_a_dropped_queue_ends_the_loop_and_takes_nothing_in",
        function="PullCursor.handle",
    ),
    Mechanism(
        "S4",
        "a consumer that is not running checks again later, and a paused one after a second",
        "C pullMessage, makeSureStateOK, isPause",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_a_consumer_that_must_not_pull_looks_again_in_a_second "
        f"{PARTS}::test_a_pull_loop_that_waits_for_the_count_goes_on_when_a_quarter_was_settled "
        f"{CONCURRENT}::test_a_paused_consumer_pulls_nothing_until_it_resumes",
        function="PullCursor._due",
    ),
    Mechanism(
        "S4",
        "with more than 1,000 cached messages of a queue, its pulls wait for 50 ms",
        "C pullMessage (flow control)",
        "core/consume/flow_control.py",
        f"{FLOW}::test_more_than_the_count_pauses_for_50_ms_and_says_why "
        f"{CURSOR}::test_a_full_queue_waits_50_ms_and_is_pulled_when_it_drained "
        f"{OPTIONS}::test_the_defaults_are_javas "
        f"{CONCURRENT}::test_pulling_pauses_while_too_much_is_cached_and_goes_on_after",
        function="check",
    ),
    Mechanism(
        "S4",
        "with more than 100 MiB, too",
        "C pullMessage (flow control)",
        "core/consume/flow_control.py",
        f"{FLOW}::test_more_than_the_size_pauses "
        f"{FLOW}::test_the_defaults_are_javas "
        f"{OPTIONS}::test_the_defaults_are_javas "
        f"{CONCURRENT}::test_pulling_pauses_by_size_too",
        function="check",
    ),
    Mechanism(
        "S4",
        "with a span of more than 2,000 offsets, too, but not in orderly consumption",
        "B consumeConcurrentlyMaxSpan; E Pull message",
        "core/consume/flow_control.py",
        f"{FLOW}::test_a_stuck_head_pauses_by_span_and_not_in_orderly_consumption "
        f"{CURSOR}::test_concurrent_pulls_need_no_lock_and_orderly_ones_no_span "
        f"{OPTIONS}::test_the_defaults_are_javas "
        f"{INSTANCE}::test_the_options_reach_each_pull_loop",
        function="check",
    ),
    Mechanism(
        "S4",
        "limits per topic are divided among the queues",
        "C pullMessage (flow control)",
        "core/consume/flow_control.py",
        f"{FLOW}::test_a_topic_limit_is_shared_over_all_queues "
        f"{CONCURRENT}::test_a_limit_per_topic_is_shared_by_the_queues_that_are_owned_now",
        function="per_queue_limits",
    ),
    Mechanism(
        "S4",
        "a pull that finds nothing waits at the broker until a message arrives",
        "A BrokerSuspendMaxTimeMillis",
        "core/long_poll.py",
        "unit/core/test_long_poll.py::test_a_filtered_pull_is_woken_only_by_its_tag "
        "unit/core/test_long_poll.py::test_an_arriving_message_wakes_those_who_wait_for_it "
        "unit/core/test_long_poll.py::test_without_a_known_code_the_filter_is_not_asked "
        "inproc/broker/test_broker_long_polling.py::test_a_held_pull_is_woken_by_the_message_it_waits_for "
        "inproc/broker/test_broker_long_polling.py::test_without_the_suspend_flag_the_answer_comes_at_once "
        "inproc/client/test_client_subscriptions.py::test_a_batch_wakes_a_pull_that_waits_for_one_of_its_tags "
        f"{INSTANCE}::test_a_pull_that_finds_nothing_is_held_at_the_broker_for_15_s",
        EVERY_FORM,
        function="LongPoll.wake",
    ),
    Mechanism(
        "S4",
        "response codes become FOUND, NO_NEW_MSG, NO_MATCHED_MSG, OFFSET_ILLEGAL; each other one is an error",
        "D processPullResponse",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_response_codes_are_statuses_or_errors "
        f"{PARTS}::test_an_answer_with_another_code_is_an_error_and_not_an_empty_pull",
    ),
    Mechanism(
        "S4",
        "FOUND: the messages are decoded, cached and dispatched, and the pull statistics are updated",
        "A PullCallback, FOUND; D",
        "client/consume/pull_loop.py",
        f"{PARTS}::test_a_pull_is_decoded_with_the_exact_tag_the_limits_and_the_original_topic "
        f"{CURSOR}::test_found_messages_are_cached_dispatched_and_the_next_pull_follows_at_once "
        f"{CONCURRENT}::test_every_message_is_consumed_once_and_progress_follows "
        f"{CONCURRENT}::test_statistics_count_what_happened "
        f"{INSTANCE}::test_a_listener_pool_grows_while_much_waits_at_the_brokers_and_shrinks_afterwards",
        EVERY_FORM,
    ),
    Mechanism(
        "S4",
        "a pull interval delays only the pull after one that found messages",
        "D getPullInterval",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_a_pull_interval_delays_only_pulls_that_found_something "
        f"{INSTANCE}::test_the_options_reach_each_pull_loop",
        function="PullCursor._returned",
    ),
    Mechanism(
        "S4",
        "NO_NEW_MSG and NO_MATCHED_MSG: the pull continues at the broker's offset, and progress moves if no message is cached",
        "D NO_NEW_MSG, NO_MATCHED_MSG",
        "core/consume/pull_cursor.py",
        f"{CONCURRENT}::test_tags_are_filtered_exactly_and_progress_passes_the_others "
        f"{CURSOR}::test_without_messages_progress_moves_only_when_nothing_is_cached",
        SELECTED,
        function="PullCursor._returned",
    ),
    Mechanism(
        "S4",
        "OFFSET_ILLEGAL: the queue is dropped, its offset is corrected and written, then the queue is added again",
        "D OFFSET_ILLEGAL",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_an_illegal_offset_drops_the_queue_with_the_brokers_correction "
        f"{SHARING}::test_an_illegal_offset_is_corrected_and_consumption_goes_on "
        f"{RESET}::test_a_reset_to_a_time_gives_everything_from_then_on_again "
        f"{RESET}::test_a_queue_that_was_reset_is_read_again_at_once_and_not_with_the_next_round",
        function="PullCursor._returned",
    ),
    Mechanism(
        "S4",
        "the client pulls from the broker that the last answer suggested",
        "D updatePullFromWhichNode",
        "core/produce/route_table.py",
        f"{ROUTES}::test_a_missing_copy_is_replaced_by_another "
        f"{RARE}::test_a_pull_goes_to_the_copy_that_the_last_answer_suggested",
        function="RouteTable.broker_address",
    ),
    Mechanism(
        "S4",
        "tags are compared again by name, because the broker compares hashes",
        "D processPullResult (filter)",
        "core/group/subscription.py",
        f"{TAGS}::test_equal_hashes_pass_the_broker_and_stop_at_the_client "
        f"{CONCURRENT}::test_tags_are_filtered_exactly_and_progress_passes_the_others",
        function="matches_tags",
    ),
    Mechanism(
        "S4",
        "the broker evaluates SQL92 conditions",
        "D processPullResult (filter)",
        "core/group/subscription.py",
        f"{TAGS}::test_sql92_is_carried_as_it_is "
        f"{FILTERS}::test_a_push_consumer_gets_what_its_condition_wants_and_waits_for_more",
        SELECTED,
        function="build_subscription",
    ),
    Mechanism(
        "S4",
        "at the end of a queue (OFFSET_OVERFLOW_ONE), and at 0 of one that never had a message, there is nothing new: "
        "the pull waits, or continues there",
        "D NO_NEW_MSG (OFFSET_OVERFLOW_ONE)",
        "broker/handlers/messages/pull.py",
        f"{BROKER_PULL}::test_offsets_outside_the_queue_are_answered_with_where_to_go_on "
        f"{BROKER_PULL}::test_an_empty_queue_is_not_found_at_zero_and_moved_elsewhere "
        "inproc/broker/test_broker_long_polling.py::test_a_held_pull_is_woken_by_the_message_it_waits_for "
        "inproc/broker/test_broker_long_polling.py::test_a_pull_of_an_empty_queue_is_held_and_woken",
        CORRECTED,
    ),
    Mechanism(
        "S4",
        "before the beginning (OFFSET_TOO_SMALL) or beyond the end (OFFSET_OVERFLOW_BADLY): OFFSET_ILLEGAL with the beginning or end",
        "D OFFSET_ILLEGAL (OFFSET_OVERFLOW_BADLY, OFFSET_TOO_SMALL)",
        "store/message_store.py",
        f"{BROKER_PULL}::test_offsets_outside_the_queue_are_answered_with_where_to_go_on",
        CORRECTED,
    ),
    Mechanism(
        "S4",
        "at any offset but 0 of a queue that never had a message (NO_MESSAGE_IN_QUEUE): OFFSET_ILLEGAL with 0",
        "D OFFSET_ILLEGAL (NO_MESSAGE_IN_QUEUE)",
        "broker/handlers/messages/pull.py",
        f"{BROKER_PULL}::test_an_empty_queue_is_not_found_at_zero_and_moved_elsewhere",
        CORRECTED,
    ),
    Mechanism(
        "S4",
        "no message passes the filter (NO_MATCHED_MESSAGE): the pull continues at once behind the messages that the broker has checked",
        "D NO_MATCHED_MSG",
        "store/message_store.py",
        f"{BROKER_PULL}::test_tags_of_the_request_filter_and_the_pull_moves_past_unmatched_messages",
        CORRECTED,
    ),
    Mechanism(
        "S4",
        "a pull never skips a hole in a queue (Java: OFFSET_FOUND_NULL, continue with the next file): a start builds such "
        "a queue anew from the log",
        "D NO_NEW_MSG (OFFSET_FOUND_NULL)",
        "store/files/mapped_file_queue.py",
        "unit/store/recovery/test_recovery.py::test_a_queue_that_misses_a_file_is_built_anew_from_the_log",
    ),
    Mechanism(
        "S4",
        "a failed pull is repeated later, and sooner if the broker only reported flow control",
        "C executePullRequestLater",
        "core/consume/pull_cursor.py",
        f"{CURSOR}::test_failures_wait_a_second_and_broker_flow_control_20_ms "
        f"{CONCURRENT}::test_a_pull_that_failed_is_repeated_after_a_second_and_sooner_after_flow_control_of_the_broker "
        "inproc/client/test_client_unreadable.py::test_a_missing_library_is_named_with_what_to_install",
        "test_our_client_in_bad_luck.py::test_connections_that_are_cut_again_and_again",
        function="PullCursor.handle",
    ),
]
