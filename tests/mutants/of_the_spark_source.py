"""What the Spark source and its ledger believe, broken on purpose: replicas, brokers that come late, the ledger's place, planned anew."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

__all__ = ["SPARK_SOURCE_MUTANTS"]

SPARK: Final = "src/sprocketmq/spark"
REPLICAS: Final = "tests/inproc/spark/test_replicas.py"
LATE: Final = "tests/inproc/spark/test_late_brokers.py"
RETIRED: Final = "tests/inproc/spark/test_retired_brokers.py"
FILES: Final = "tests/unit/spark/test_checkpoint_files.py"
PLACE: Final = "tests/inproc/spark/test_ledger_place.py"

SPARK_SOURCE_MUTANTS = [
    Mutant(
        "exactly-once",
        "a decided batch that was planned anew with other rows is skipped",
        "src/sprocketmq/core/transactions/decision_ledger.py",
        "    if decision.rows is not None and rows is not None and decision.rows != rows:",
        "    if False:",
        "tests/inproc/spark/test_replanned_batches.py::"
        "test_a_decided_batch_that_comes_again_with_other_rows_is_refused",
    ),
    Mutant(
        "exactly-once",
        "a second ledger is made while the broker of the first is away",
        f"{SPARK}/transactions/ledger_place.py",
        "        await _hold_places(api, topic, {name: at for name, at in masters.items() if name not in permissions})",
        "        pass",
        f"{PLACE}::test_no_second_ledger_is_made_while_the_broker_of_the_first_is_away",
    ),
    Mutant(
        "exactly-once",
        "of two ledgers the first by name counts, whatever the other decided",
        f"{SPARK}/transactions/ledger_place.py",
        "    kept = full or homes[:1]",
        "    kept = homes[:1]",
        f"{PLACE}::test_of_two_ledgers_the_one_without_decisions_keeps_the_place",
    ),
    Mutant(
        "exactly-once",
        "a home is hidden before it was looked at",
        f"{SPARK}/transactions/ledger_place.py",
        "    await set_permission(api, address, topic, READ)\n",
        "    await set_permission(api, address, topic, NOTHING)\n",
        f"{PLACE}::test_a_home_whose_emptying_was_cut_off_can_still_be_read",
    ),
    Mutant(
        "exactly-once",
        "of two empty ledgers the first by name is kept, though it takes no decision",
        f"{SPARK}/transactions/ledger_place.py",
        "key=lambda name: permissions[name] != READ_WRITE)",
        "key=lambda name: False)",
        f"{PLACE}::test_of_two_empty_ledgers_the_one_that_can_be_written_is_kept",
    ),
    Mutant(
        "exactly-once",
        "what a second ledger adds is not compared with a third",
        f"{SPARK}/transactions/ledger_merge.py",
        "                    known[newest := decision.batch] = decision, name\n",
        "                    newest = decision.batch\n",
        f"{PLACE}::test_two_other_ledgers_that_decided_a_batch_differently_are_a_question_for_a_person",
    ),
    Mutant(
        "exactly-once",
        "a merged decision keeps where its writer had read to in another ledger",
        f"{SPARK}/transactions/ledger_merge.py",
        "        anew = replace(decision, read_to=end)",
        "        anew = decision",
        f"{PLACE}::test_of_two_ledgers_with_decisions_none_is_forgotten",
    ),
    Mutant(
        "spark",
        "a replica is asked for what its master has",
        f"{SPARK}/cluster/cluster.py",
        "        if MASTER not in registered.broker_addrs:",
        "        if registered.broker_addrs:\n            return next(iter(registered.broker_addrs.values()))\n        if True:",
        f"{REPLICAS}::test_a_batch_does_not_end_where_a_replica_ends",
    ),
    Mutant(
        "spark",
        "a replica says what is not there",
        "src/sprocketmq/client/read/queue_reader.py",
        "            if is_replica and (",
        "            if False and (",
        f"{REPLICAS}::test_a_task_loses_nothing_that_only_the_master_has",
    ),
    Mutant(
        "spark",
        "a replica that acts as master is one",
        "src/sprocketmq/client/remoting/masters.py",
        "(broker.enable_acting_master and not _may_be_written(route, broker_name))",
        "False",
        "tests/unit/client/test_masters.py::test_a_replica_that_acts_as_master_is_none",
    ),
    Mutant(
        "spark",
        "a broker that comes late is read from its beginning",
        f"{SPARK}/read/plan.py",
        "        at = self._starts.get(queue, held.min) if position is None else position",
        "        at = held.min if position is None else position",
        f"{LATE}::test_a_stream_that_began_at_the_latest_reads_nothing_old",
    ),
    Mutant(
        "spark",
        "the rule for late queues is forgotten with the first batch",
        f"{SPARK}/read/plan.py",
        "lost=losses, late=start.late)",
        "lost=losses)",
        f"{LATE}::test_a_stream_that_began_at_the_latest_reads_nothing_old",
    ),
    Mutant(
        "spark",
        "a topic that is added to a query begins by the rule of its start",
        f"{SPARK}/read/late_queues.py",
        "(late is not None and late.covers(queue)):",
        "late is not None:",
        f"{LATE}::test_a_topic_that_is_added_to_a_query_begins_at_its_first_message",
    ),
    Mutant(
        "spark",
        "a new queue of a broker that was there begins by the clocks",
        f"{SPARK}/options/late_start.py",
        "        if queue.broker_name in self.seen:",
        "        if False:",
        f"{LATE}::test_a_new_topic_of_a_broker_that_was_there_is_read_from_its_first_message_whatever_the_clocks_say",
    ),
    Mutant(
        "spark",
        "a queue without a commit is asked about at each look",
        f"{SPARK}/read/late_queues.py",
        "{queue: found.get(queue) for queue in new if queue not in unheard}",
        "found",
        f"{LATE}::test_a_queue_without_a_commit_is_asked_about_once",
    ),
    Mutant(
        "spark",
        "a queue whose broker is away fails the progress of all",
        f"{SPARK}/read/group_progress.py",
        "            return error\n        return None\n\n    answers = cluster.engine",
        "            raise\n        return None\n\n    answers = cluster.engine",
        f"{RETIRED}::test_progress_is_shown_to_the_brokers_that_are_there_and_the_others_are_left_alone",
    ),
    Mutant(
        "spark",
        "a broker that is gone for good is waited for",
        f"{SPARK}/read/stream_reader.py",
        "        return bounds, {**watch.gone(sorted(missing - retired)), **gone}",
        "        return bounds, watch.gone(sorted(missing - retired))",
        f"{RETIRED}::test_a_bounded_run_ends_without_a_broker_that_is_retired",
    ),
    Mutant(
        "spark",
        "a living broker that is named is left while the name server does not answer",
        f"{SPARK}/read/stream_reader.py",
        "queue for queue in missing if watch.is_answered and ",
        "queue for queue in missing if ",
        f"{RETIRED}::test_a_living_broker_that_is_named_is_not_left_while_the_name_server_does_not_answer",
    ),
    Mutant(
        "spark",
        "progress that is refused is told with each call",
        f"{SPARK}/read/group_progress.py",
        "now_s if is_first_refusal else now_s + _AGAIN_S",
        "now_s",
        f"{RETIRED}::test_refused_progress_is_told_again_at_once_and_then_each_ten_seconds",
    ),
    Mutant(
        "spark",
        "a checkpoint is edited under a running query",
        f"{SPARK}/checkpoint_files.py",
        "        if self.planned != source.batch or self._text(source.batch) != source.text:",
        "        if False:",
        f"{FILES}::test_a_file_that_changed_since_it_was_read_is_not_replaced",
    ),
    Mutant(
        "spark",
        "a batch that is planned and not done is edited",
        f"{SPARK}/checkpoint_files.py",
        "        self.refuse_unfinished()",
        "        pass",
        f"{FILES}::test_an_unfinished_batch_is_not_edited_away",
    ),
    Mutant(
        "spark",
        "a batch that is planned anew is so under its old number",
        f"{SPARK}/checkpoint_files.py",
        '            self._write("offsets", number, self._text(number - 1))\n',
        '            self._file("offsets", number).unlink()\n            return\n',
        f"{FILES}::test_a_batch_that_is_planned_anew_keeps_its_number_for_no_rows",
    ),
    Mutant(
        "spark",
        "an edited file keeps the checksum of the old one",
        f"{SPARK}/checkpoint_files.py",
        "        self._checksum(log, number).unlink(missing_ok=True)\n        new =",
        "        new =",
        f"{FILES}::test_only_what_is_asked_for_changes_and_the_file_as_it_was_is_kept",
    ),
]
