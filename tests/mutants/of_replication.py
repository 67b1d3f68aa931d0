"""Mutants of replication, of handing over, and of the name server."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["REPLICATION_MUTANTS"]

_UNIT = "tests/unit/core/test_replication.py"
_LIVE = "tests/inproc/broker/test_broker_replication.py"
_HANDOVER = "tests/unit/core/test_handover.py"
_TABLE = "tests/unit/core/test_namesrv_table.py"
_ADMIN = "tests/inproc/broker/test_broker_namesrv_admin.py"

REPLICATION_MUTANTS = [
    Mutant(
        "replication",
        "a slave of another log counts as one that has everything",
        "src/sprocketmq/core/cluster/replication.py",
        "if offset < 0 or offset > log.end:",
        "if offset < 0:",
        f"{_UNIT}::test_a_slave_of_another_log_is_sent_away_and_nothing_counts_as_replicated",
    ),
    Mutant(
        "replication",
        "a fresh slave begins at the oldest file, which may be deleted under it",
        "src/sprocketmq/core/cluster/replication.py",
        "begin = offset or log.last_file_start",
        "begin = offset or log.start",
        f"{_UNIT}::test_a_slave_that_holds_nothing_gets_the_last_file",
    ),
    Mutant(
        "replication",
        "a slave is believed to hold what it was never sent",
        "src/sprocketmq/core/cluster/replication.py",
        "elif offset > slave.next_offset:",
        "elif offset > log.end:",
        f"{_UNIT}::test_a_slave_cannot_hold_what_it_was_not_sent",
    ),
    Mutant(
        "replication",
        "a send is answered by an acknowledgement of half of it",
        "src/sprocketmq/core/cluster/replication.py",
        "while waiting and waiting[0].end <= replicated:",
        "while waiting and waiting[0].end <= replicated + 1:",
        f"{_LIVE}::test_a_send_waits_until_a_slave_has_it {_UNIT}::test_sends_are_answered_in_order_by_an_acknowledgement_or_by_time",
    ),
    Mutant(
        "replication",
        "a sync master answers before a slave has the message",
        "src/sprocketmq/broker/replication/replication.py",
        "        if self.is_replicated(end):\n            self._answer(waiting, None)",
        "        if self.table.slaves:\n            self._answer(waiting, None)",
        f"{_LIVE}::test_a_send_waits_until_a_slave_has_it",
    ),
    Mutant(
        "replication",
        "the slave copies the zeros behind the end of a file's records",
        "src/sprocketmq/store/log/commit_log.py",
        "end = min(self.at if file.start == self.start else file.size_bytes, at + max_bytes)",
        "end = min(file.size_bytes, at + max_bytes)",
        f"{_LIVE}::test_a_slave_gets_the_log_byte_for_byte_also_over_the_end_of_a_file",
    ),
    Mutant(
        "handover",
        "the broker goes before its slave has the whole log",
        "src/sprocketmq/core/cluster/handover.py",
        "if self._copied >= _OF_THE_ROUND and acknowledged >= self.log_end:",
        "if self._copied >= _OF_THE_ROUND:",
        f"{_HANDOVER}::test_it_is_drained_when_the_round_is_over_and_the_log_is_there",
    ),
    Mutant(
        "handover",
        "a slave that has old topics becomes the master",
        "src/sprocketmq/core/cluster/handover.py",
        "if is_slave and self._topics.get(host) == topics_version:",
        "if is_slave:",
        f"{_HANDOVER}::test_topics_that_changed_since_the_slave_copied_them_mean_another_round",
    ),
    Mutant(
        "handover",
        "writes go on while the slave copies the last state",
        "src/sprocketmq/broker/replication/handover.py",
        "self._broker.store.freeze(StoreNotWritable(self._reason()) if self._machine.refuses_writes else None)",
        "self._broker.store.freeze(None)",
        f"{_LIVE}::test_a_broker_hands_over_at_its_slaves_round_and_never_starts_again",
    ),
    Mutant(
        "handover",
        "a store that was given away starts again",
        "src/sprocketmq/broker/replication/handover.py",
        "        if given is not None:",
        "        if given is not None and given.log_end < 0:",
        f"{_LIVE}::test_a_broker_hands_over_at_its_slaves_round_and_never_starts_again",
    ),
    Mutant(
        "name server",
        "a broker's news of one topic wipes what the name server has yet to learn",
        "src/sprocketmq/core/cluster/namesrv_table.py",
        "if held_by is None and topic_count == 1:",
        "if held_by is None and topic_count == -1:",
        f"{_TABLE}::test_a_first_registration_with_one_topic_is_refused_and_leaves_nothing",
    ),
    Mutant(
        "name server",
        "each registration gives the write permission back",
        "src/sprocketmq/core/cluster/namesrv_table.py",
        "if registration.changed or not known:  # law 5",
        "if True:",
        f"{_TABLE}::test_the_write_permission_is_wiped_until_a_change_and_added",
    ),
    Mutant(
        "name server",
        "a slave alone can be written to",
        "src/sprocketmq/core/cluster/namesrv_table.py",
        "                if MASTER_ID not in broker.addresses:\n                    self.wipe_write_perm(live.broker_name)",
        "                if MASTER_ID in broker.addresses:\n                    self.wipe_write_perm(live.broker_name)",
        f"{_TABLE}::test_an_acting_master_reads_only_and_stands_in_the_routes_as_master",
    ),
    Mutant(
        "name server",
        "a setting of the black list is changed by a request",
        "src/sprocketmq/broker/namesrv/namesrv_requests.py",
        "if server.config.is_black_listed(changes):",
        "if not changes:",
        f"{_ADMIN}::test_settings_of_the_black_list_are_not_changed",
    ),
]
