"""Mutants of what shares the loop out, and of the limits of tables that strangers fill."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["LOOP_MUTANTS"]

TURNS = "tests/inproc/broker/test_loop_turns.py"
SHARE = "tests/inproc/broker/test_loop_share.py"
TABLES = "tests/inproc/broker/test_loop_tables.py"
STATUS = "tests/inproc/broker/test_loop_status.py"
PULLS = "tests/inproc/broker/test_loop_pulls.py"
QUEUES = "tests/inproc/broker/test_loop_queues.py"
BATCHES = "tests/inproc/broker/test_large_batches.py"
KEYS = "tests/inproc/broker/test_loop_kv_config.py"
PARTS = "tests/unit/broker/test_registration.py"
REGISTERED = "tests/inproc/broker/test_loop_registration.py"
WRITES = "tests/inproc/broker/test_config_writes.py"
BOUNDED = f"{TABLES}::test_ten_times_its_bound_leaves_a_table_at_its_bound"

LOOP_MUTANTS = [
    Mutant(
        "broker",
        "all brokers of a connection that closes are forgotten in one go",
        "src/sprocketmq/broker/namesrv/namesrv.py",
        "            asyncio.get_running_loop().call_soon(self._let_go, gone, tell)\n",
        "            self._let_go(gone, tell)\n",
        f"{REGISTERED}::test_the_brokers_of_a_connection_that_closes_go_one_in_a_turn_of_the_loop",
    ),
    Mutant(
        "net",
        "each of sixty floods has ten milliseconds of each turn",
        "src/sprocketmq/net/queued_bytes.py",
        "                if perf_counter() >= ends_s:\n",
        "                if False:\n",
        f"{TURNS}::test_all_connections_that_have_requests_left_share_the_part_of_a_turn_that_one_would_have",
    ),
    Mutant(
        "broker",
        "a group is moved in all queues of a topic in one go",
        "src/sprocketmq/broker/handlers/group/offset_reset.py",
        "in_steps(queue_ids, _QUEUES_PER_STEP):",
        "in_steps(queue_ids, 1 << 30):",
        f"{QUEUES}::test_a_group_is_moved_in_all_queues_of_a_topic_in_steps",
    ),
    Mutant(
        "net",
        "large requests that go a short way have a larger share than others",
        "src/sprocketmq/net/connection.py",
        "                look_at = at + _LOOK_EACH_BYTES\n",
        "                look_at = at + 100 * _LOOK_EACH_BYTES\n",
        f"{QUEUES}::test_large_requests_that_go_a_short_way_have_no_larger_share_than_others",
    ),
    Mutant(
        "broker",
        "settings of a request have any length",
        "src/sprocketmq/broker/security/name_checks.py",
        "    if size <= _MOST_SETTINGS_BYTES:",
        "    if True:",
        f"{QUEUES}::test_long_settings_are_refused",
    ),
    Mutant(
        "broker",
        "a broker assigns any number of queues",
        "src/sprocketmq/broker/handlers/group/assignment.py",
        "if queues is not None and len(queues) > _MOST_QUEUES:",
        "if False:",
        f"{QUEUES}::test_a_broker_assigns_no_more_queues_than_it_can_in_one_go",
    ),
    Mutant(
        "broker",
        "a heartbeat for each group brings as much as one for all of them",
        "src/sprocketmq/broker/handlers/limits.py",
        "        broker, kept + [one for",
        "        broker, [one for",
        "tests/inproc/broker/test_heavy_groups.py",
    ),
    Mutant(
        "broker",
        "to look for texts costs as much as to look for names",
        "src/sprocketmq/core/sql92/parser.py",
        '"COMMA": 0, "CONTAINS": 20}',
        '"COMMA": 0}',
        "tests/unit/core/sql92/test_sql92.py",
    ),
    Mutant(
        "broker",
        "whoever a message wakes is answered at once",
        "src/sprocketmq/broker/delivery/parked.py",
        "while (self._again or turns) and perf_counter() < ends_s:",
        "while self._again or turns:",
        f"{PULLS}::test_many_pulls_are_woken_by_one_message_in_shares_of_the_loop",
    ),
    Mutant(
        "broker",
        "what arrives while waiters are looked at is forgotten",
        "src/sprocketmq/broker/delivery/parked.py",
        "if what in self._arrived:  # meanwhile",
        "if self._arrived.pop(what, None):",
        f"{PULLS}::test_a_message_that_arrives_while_waiters_are_looked_at_is_looked_at_by_all_of_them",
    ),
    Mutant(
        "broker",
        "a queue's waiters are woken to the last before those of the next queue",
        "src/sprocketmq/broker/delivery/parked.py",
        "        self._turns.append(what)\n        try:",
        "        self._turns.appendleft(what)\n        try:",
        f"{PULLS}::test_a_queue_with_few_waiters_does_not_stand_behind_one_with_many",
    ),
    Mutant(
        "broker",
        "no pull's time is over any more once many were",
        "src/sprocketmq/broker/delivery/parked.py",
        "                self._arm()\n",
        "                pass\n",
        f"{PULLS}::test_many_pulls_whose_time_is_over_are_answered_in_shares_of_the_loop",
    ),
    Mutant(
        "broker",
        "a filter judges as many messages as it likes in one go",
        "src/sprocketmq/broker/delivery/filters.py",
        "return match_record(record) if now_s < ends_s else None",
        "return match_record(record)",
        f"{PULLS}::test_a_filtered_pull_ends_with_its_share_and_the_next_one_goes_on",
    ),
    Mutant(
        "broker",
        "what a member tells of its queues is read at once",
        "src/sprocketmq/broker/handlers/messages/relay.py",
        "in_steps(_offsets(body), _QUEUES_A_STEP):",
        "in_steps(_offsets(body), 1 << 30):",
        f"{STATUS}::test_a_member_of_many_queues_is_told_of_in_steps_and_in_full",
    ),
    Mutant(
        "broker",
        "a queue of a member's answer has as many characters as it likes",
        "src/sprocketmq/wire/fastjson.py",
        "            self.end = min(text_end, self.at + most_chars)\n            if",
        "            self.end = text_end\n            if",
        "tests/unit/wire/test_fastjson.py::test_a_pair_is_no_longer_than_it_may_be",
    ),
    Mutant(
        "broker",
        "what all members tell may be longer than a frame",
        "src/sprocketmq/broker/handlers/messages/relay.py",
        "    if room.is_full:",
        "    if False:",
        f"{STATUS}::test_what_all_members_tell_has_to_fit_into_a_frame",
    ),
    Mutant(
        "broker",
        "a member may have more queues than a topic",
        "src/sprocketmq/broker/handlers/messages/relay.py",
        "if len(shares) > MAX_QUEUES // _QUEUES_A_STEP:",
        "if False:",
        f"{STATUS}::test_a_member_has_no_more_queues_than_a_topic",
    ),
    Mutant(
        "broker",
        "a batch holds as many messages as fit into its bytes",
        "src/sprocketmq/broker/handlers/messages/send.py",
        "if is_batch and has_more_elements(command.body, most):",
        "if False:",
        BATCHES,
    ),
    Mutant(
        "broker",
        "and on the short way",
        "src/sprocketmq/broker/plain_batches.py",
        "if has_more_elements(view[body_at:stop], broker.config.max_messages_per_batch):",
        "if False:",
        BATCHES,
    ),
    Mutant(
        "client",
        "automatic batches grow beyond the messages that a broker takes",
        "src/sprocketmq/core/produce/send_batches.py",
        " or len(items) >= self._max_items:",
        ":",
        "tests/unit/core/test_send_batches.py::test_a_batch_holds_no_more_messages_than_a_broker_takes",
    ),
    Mutant(
        "net",
        "the requests of one write are served to their end before anybody else",
        "src/sprocketmq/net/connection.py",
        "if self._is_served and stop != spans[-1][1] and perf_counter() >= ends_s:",
        "if False:",
        f"{TURNS}::test_another_peer_is_served_between_the_requests_of_one_write",
    ),
    Mutant(
        "net",
        "a header may have as many fields as fit into a frame",
        "src/sprocketmq/wire/command.py",
        "if header_length > max_header_bytes:",
        "if False:",
        f"{TURNS}::test_a_header_of_a_million_fields_costs_its_connection",
    ),
    Mutant(
        "broker",
        "steps follow each other without a turn of the loop",
        "src/sprocketmq/broker/steps.py",
        "            await asyncio.sleep(0)",
        "            pass",
        f"{SHARE}::test_a_long_answer_is_made_in_steps",
    ),
    Mutant(
        "broker",
        "a peer has as many long answers in work as it likes",
        "src/sprocketmq/broker/service.py",
        "        connection.pause()\n",
        "        connection._long_answers += 1\n",
        f"{SHARE}::test_a_peer_has_one_long_answer_in_work_and_all_peers_together_take_one_step_a_turn",
    ),
    Mutant(
        "broker",
        "each key of the name server is a write of its file",
        "src/sprocketmq/broker/tables/table_file.py",
        "if self._file.path is None or self._is_changed:\n            return",
        "if self._file.path is not None:\n            self._file.save(self._content())  # type: ignore[arg-type]\n            return",
        f"{KEYS}::test_a_thousand_keys_in_one_write_cost_a_few_writes_of_the_file",
    ),
    Mutant(
        "broker",
        "all parts of a registration have one data version",
        "src/sprocketmq/broker/replication/registration.py",
        "version.timestamp + number)",
        "version.timestamp)",
        f"{PARTS}::test_a_large_table_goes_in_parts_and_a_name_server_of_4_9_has_all_of_it_after_each_round",
    ),
    Mutant(
        "namesrv",
        "an interrupted registration counts as taken",
        "src/sprocketmq/core/cluster/namesrv_table.py",
        "if known is None else known.data_version\n        )",
        "if known is None else data_version\n        )",
        "tests/unit/core/test_namesrv_table.py"
        "::test_what_an_interrupted_registration_did_not_bring_comes_with_the_next_one_of_the_same_version",
    ),
    Mutant(
        "namesrv",
        "a part of a registration is taken for all of it",
        "src/sprocketmq/core/cluster/namesrv_table.py",
        "registration.wanted and is_whole:",
        "registration.wanted:",
        f"{REGISTERED}::test_parts_do_not_make_a_name_server_drop_the_topics_of_the_other_parts",
    ),
    Mutant(
        "broker",
        "offsets of queues that do not exist are kept",
        "src/sprocketmq/broker/handlers/group/offsets.py",
        "header.queue_id >= max(config.read_queue_nums, config.write_queue_nums)",
        "False",
        f"{BOUNDED}[offsets_of_queues_that_are_not_there-cluster0]",
    ),
    Mutant(
        "broker",
        "a connection is in as many groups as it likes",
        "src/sprocketmq/broker/handlers/limits.py",
        '        if count > allowed:\n            return (\n                f"this connection',
        '        if False:\n            return (\n                f"this connection',
        f"{BOUNDED}[producer_groups-cluster0]",
    ),
    Mutant(
        "broker",
        "queues that nobody has are locked without an end",
        "src/sprocketmq/core/consume/queue_lock.py",
        "if self._count >= self.max_locks:",
        "if False:",
        f"{BOUNDED}[locks-cluster0]",
    ),
    Mutant(
        "broker",
        "a stop forgets a table whose text is being made",
        "src/sprocketmq/broker/tables/table_file.py",
        "self._making, self._is_changed = None, True",
        "self._making = None",
        f"{WRITES}::test_a_stop_while_a_large_table_is_made_writes_it",
    ),
]
