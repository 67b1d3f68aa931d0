"""Mutants of transactions and replies."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["TRANSACTION_MUTANTS"]

CORE = "src/sprocketmq/core/transactions/transaction_check.py"
BROKER = "src/sprocketmq/broker/delivery/transactions.py"
HANDLER = "src/sprocketmq/broker/handlers/messages/transactions.py"
REPLY = "src/sprocketmq/broker/handlers/messages/reply.py"
POLICY = "tests/unit/core/test_transaction_check.py"
DRIVER = "tests/inproc/broker/test_broker_transactions.py"
REPLIES = "tests/inproc/broker/test_broker_replies.py"

TRANSACTION_MUTANTS = [
    Mutant(
        "transactions",
        "an END that names an older copy leaves the newest one open",
        CORE,
        "        live = self._copies.get(transaction, self._given_up.get(transaction, offset))",
        "        live = offset",
        f"{POLICY}::test_an_end_that_names_an_older_copy_settles_the_newest",
    ),
    Mutant(
        "transactions",
        "after a kill a half and its copy are both open",
        CORE,
        "            self._superseded.update(older)",
        "            self._superseded.update(())",
        f"{DRIVER}::test_progress_that_a_kill_took_back_asks_nobody_twice",
    ),
    Mutant(
        "transactions",
        "progress in the op queue passes marks that are still needed",
        CORE,
        "        return next(iter(self._settled.values()), self._op_end)",
        "        return self._op_end",
        f"{POLICY}::test_progress_passes_what_is_settled_and_stops_at_the_first_open_half",
    ),
    Mutant(
        "transactions",
        "a half is checked once more than it may",
        CORE,
        ">= rules.check_max:",
        "> rules.check_max:",
        f"{POLICY}::test_a_half_gets_the_verdict_that_apache_gives",
    ),
    Mutant(
        "transactions",
        "the message of a commit is stored again by each END",
        BROKER,
        "            self._table.ended(transaction, outcome)\n",
        "            pass\n",
        f"{DRIVER}::test_the_first_end_counts {DRIVER}::test_a_commit_that_comes_after_the_half_was_given_up_still_counts",
    ),
    Mutant(
        "transactions",
        "the mark names its half with a comma, which 4.9 does not read",
        BROKER,
        '            b"%d" % half_offset,',
        '            b"%d," % half_offset,',
        f"{DRIVER}::test_a_commit_stores_the_message_and_marks_the_half",
    ),
    Mutant(
        "transactions",
        "a commit that a kill cut off is not marked at the start",
        BROKER,
        "        self._finish_cut_off_commit()\n",
        "",
        f"{DRIVER}::test_a_commit_whose_mark_a_kill_cut_off_is_not_committed_again",
    ),
    Mutant(
        "transactions",
        "a half that was put back counts as checked",
        BROKER,
        "            raw = props.set_property(raw, props.TRAN_PREPARED_QUEUE_OFFSET, first)",
        '            raw = props.set_property(raw, props.TRANSACTION_CHECK_TIMES, "1")',
        f"{DRIVER}::test_a_half_that_asked_for_time_is_asked_for_after_it_and_may_be_ended_by_its_producer_only_before",
    ),
    Mutant(
        "transactions",
        "a delayed half goes to its delay level and is lost",
        BROKER,
        "        raw = props.remove_property(message.properties, props.DELAY)",
        "        raw = message.properties",
        f"{DRIVER}::test_a_half_message_is_stored_as_apache_stores_it_and_nobody_sees_it",
    ),
    Mutant(
        "transactions",
        "a producer ends another group's transaction",
        HANDLER,
        "    if props.get_property(raw, props.PGROUP) != header.producer_group:",
        "    if False:",
        f"{DRIVER}::test_an_end_that_does_not_fit_its_half_is_refused",
    ),
    Mutant(
        "replies",
        "a reply that nobody took is answered as if it had arrived",
        REPLY,
        "    if taken.code:",
        "    if False:",
        f"{REPLIES}::test_a_reply_that_the_requester_refuses_is_answered_with_a_remark",
    ),
]
