# SPDX-License-Identifier: Apache-2.0
"""Spark."""

from __future__ import annotations

from mutants.mutant import Mutant

__all__ = ["SPARK_MUTANTS"]

SPARK_MUTANTS = [
    Mutant(
        "exactly-once",
        "a decided batch is sent again",
        "src/sprocketmq/spark/transactions/transactional_write.py",
        "            result.skipped = batch_status is BatchStatus.DECIDED",
        "            result.skipped = False",
        "tests/inproc/spark/test_transactional_sink.py::test_a_batch_that_is_decided_is_not_sent_again",
    ),
    Mutant(
        "exactly-once",
        "a batch is decided whose halves were given up",
        "src/sprocketmq/spark/transactions/transactional_write.py",
        "                    await self._refuse_too_old(responder, tasks)\n",
        "",
        "tests/inproc/spark/test_long_transactional_batches.py::test_a_batch_whose_halves_are_given_up_is_not_decided",
    ),
    Mutant(
        "exactly-once",
        "a half is committed whose row is shown",
        "src/sprocketmq/spark/transactions/responder.py",
        "        if answer is LocalTransactionState.COMMIT_MESSAGE and await self.visible_rows.has(message):",
        "        if False:",
        "tests/inproc/spark/test_transactional_sink.py::test_a_half_is_committed_when_asked_about_unless_its_row_is_shown",
    ),
    Mutant(
        "exactly-once",
        "a task ends its halves itself, and its rows are seen before anything is decided",
        "src/sprocketmq/spark/transactions/transactional_write.py",
        "        result.sent, result.half_positions, result.lost = sender.sent, sender.half_positions, sorted(sender.lost)\n",
        "        result.sent, result.half_positions, result.lost = sender.sent, sender.half_positions, sorted(sender.lost)\n"
        "        responder.engine.run(self._end(responder, sender.half_positions, _COMMIT))\n",
        "tests/inproc/spark/test_transactional_sink.py::test_rows_appear_with_the_commit_and_not_before",
    ),
    Mutant(
        "exactly-once",
        "of two ledgers the first by name counts, whatever the other decided",
        "src/sprocketmq/spark/transactions/ledger_location.py",
        "    kept = full or brokers[:1]",
        "    kept = brokers[:1]",
        "tests/inproc/spark/test_ledger_location.py::test_of_two_ledgers_the_one_without_decisions_keeps_the_place",
    ),
    Mutant(
        "spark",
        "the last batch is never committed",
        "src/sprocketmq/spark/read/stream_reader.py",
        "        self._eager_commit(position)\n",
        "",
        "tests/inproc/spark/test_stream_reader.py::test_a_batch_is_committed_when_the_next_one_is_asked_for_and_not_before",
    ),
    Mutant(
        "spark",
        "bad rows are sent back before the good ones are written",
        "src/sprocketmq/spark/retry/row_retry.py",
        "        self._write(judged.where(~self._is_bad(judged)).drop(*_VERDICT), batch_id)\n"
        "        self._send_back(judged, bad, batch_id)\n",
        "        self._send_back(judged, bad, batch_id)\n"
        "        self._write(judged.where(~self._is_bad(judged)).drop(*_VERDICT), batch_id)\n",
        "tests/inproc/spark/test_row_retry.py::test_nothing_is_sent_back_before_the_good_rows_are_written",
    ),
    Mutant(
        "spark",
        "a task keeps its losses to itself",
        "src/sprocketmq/spark/read/reader.py",
        "            add_losses(options.loss_report, losses)",
        "            pass",
        "tests/inproc/spark/test_stream_losses.py::test_offsets_that_went_back_under_a_task_are_named_to_the_end_of_its_range",
    ),
    Mutant(
        "spark",
        "a query that died in its first batch asks for the latest offset anew",
        "src/sprocketmq/spark/read/stream_reader.py",
        "        return StreamOffset(initial=self._options.starting.kind).to_json()",
        "        return self._planner.first_batch(None).to_json()",
        "tests/inproc/spark/test_stream_reader.py::test_a_query_that_dies_before_its_first_batch_is_done_reads_the_same_again",
    ),
    Mutant(
        "spark",
        "a row counts as stored whatever the broker says of its disk and slaves",
        "src/sprocketmq/spark/write/message_sender.py",
        "            if result.status.name not in self._options.accepted_send_status:\n",
        "            if False:\n",
        "tests/inproc/spark/test_weak_acknowledgements.py::test_rows_that_no_slave_has_are_not_stored_unless_the_user_says_so",
    ),
    Mutant(
        "spark",
        "kept verdicts of which a part is gone are taken for the batch",
        "src/sprocketmq/spark/retry/verdict_store.py",
        'if there == checked["rows"]:',
        "if there:",
        "tests/system/spark/test_verdict_store.py::test_kept_verdicts_of_which_some_are_gone_are_not_taken_for_the_batch",
    ),
    Mutant(
        "spark",
        "rows are sent back although nobody reads them again",
        "src/sprocketmq/spark/retry/query_sources.py",
        "(self.includes_retry and self.group == group)",
        "self.group == group",
        "tests/unit/spark/test_query_sources.py::test_one_source_of_the_query_must_read_the_retries_of_the_group",
    ),
    Mutant(
        "spark",
        "verdicts count before it is known that they can be carried out",
        "src/sprocketmq/spark/retry/row_retry.py",
        "            judged = store.save(self._judged(rows, batch_id))\n",
        "            judged = store.save(self._judged(rows, batch_id))\n            store.complete()\n",
        "tests/inproc/spark/test_row_retry.py::test_a_row_that_cannot_be_sent_back_stops_the_batch_before_its_verdicts_are_stored",
    ),
]
