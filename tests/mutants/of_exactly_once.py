"""Mutants of the transactional Spark sink: its ledger, its half messages, its commits."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["EXACTLY_ONCE_MUTANTS"]

CORE = "src/sprocketmq/core/decision_ledger.py"
HALVES = "src/sprocketmq/spark/half_messages.py"
COMMIT = "src/sprocketmq/spark/exactly_once.py"
LAWS = "tests/unit/core/test_decision_ledger.py"
SINK = "tests/inproc/spark/test_transactional_sink.py"
LONG = "tests/inproc/spark/test_long_transactional_batches.py"

EXACTLY_ONCE_MUTANTS = [
    Mutant(
        "exactly-once",
        "a decision whose writer had not seen the one before it counts",
        CORE,
        "        if self.decisions and (decision.read_to <= self._last or decision.batch <= self.decisions[-1].batch):",
        "        if self.decisions and decision.batch < 0:",
        f"{LAWS}::test_a_decision_that_comes_after_a_later_batch_is_void",
    ),
    Mutant(
        "exactly-once",
        "a half is rolled back because its batch is not decided yet",
        CORE,
        "if is_passed and is_known else LocalTransactionState.UNKNOWN",
        "if chain else LocalTransactionState.UNKNOWN",
        f"{LAWS}::test_nothing_is_rolled_back_while_a_decision_may_still_come",
    ),
    Mutant(
        "exactly-once",
        "a half is rolled back because its decision expired",
        CORE,
        "        is_known = bool(chain) and (chain[0].batch < batch or self.start <= 0 >= self._oldest or query in self._new)",
        "        is_known = bool(chain)",
        f"{LAWS}::test_a_batch_whose_decision_may_have_expired_is_not_rolled_back",
    ),
    Mutant(
        "exactly-once",
        "a record counts although what its writer had not seen is not read",
        CORE,
        "        if decision.read_to < self._start or decision.read_to <= self._doubtful:",
        "        if decision.read_to <= self._doubtful:",
        f"{LAWS}::test_a_record_is_in_doubt_until_what_its_writer_had_not_seen_is_read",
    ),
    Mutant(
        "exactly-once",
        "a note speaks for what lies between it and where reading began",
        CORE,
        "        return any(note.read_to >= self.start and query not in note.queries for note in self._notes)",
        "        return any(query not in note.queries for note in self._notes)",
        f"{LAWS}::test_for_a_query_that_a_note_does_not_name_nobody_reads_further_back",
    ),
    Mutant(
        "exactly-once",
        "a note forgets whom the one before it named",
        CORE,
        "        before = frozenset() if known is None or self.is_read_to_its_beginning else known.queries",
        "        before: frozenset[str] = frozenset()",
        f"{LAWS}::test_for_a_query_that_a_note_does_not_name_nobody_reads_further_back",
    ),
    Mutant(
        "exactly-once",
        "nobody notes which queries the ledger knows",
        COMMIT,
        "                    await self._note(responder, ledger, known.note(_NOTE_EACH))",
        "                    pass",
        f"{SINK}::test_a_new_query_reads_the_ledger_back_to_the_last_note",
    ),
    Mutant(
        "exactly-once",
        "a half whose send was not answered counts",
        CORE,
        "            named = attempt in decision.attempts and half not in decision.lost",
        "            named = attempt in decision.attempts",
        f"{LAWS}::test_a_half_whose_send_was_not_answered_does_not_count",
    ),
    Mutant(
        "exactly-once",
        "a half is ended directly although the broker asks about it",
        CORE,
        "    return max(0, transaction_timeout_ms - 2 * op_batch_interval_ms)",
        "    return max(0, transaction_timeout_ms - op_batch_interval_ms)",
        f"{LAWS}::test_a_half_is_ended_by_who_decided_only_while_the_broker_cannot_have_asked",
    ),
    Mutant(
        "exactly-once",
        "two tries of one row share a key, so that the answer for one ends the other",
        HALVES,
        "                message.properties.pop(props.UNIQ_KEY, None)",
        "                pass",
        f"{SINK}::test_a_row_whose_answer_was_lost_appears_once",
    ),
    Mutant(
        "exactly-once",
        "a half is committed whose row is shown",
        "src/sprocketmq/spark/responder.py",
        "        if answer is LocalTransactionState.COMMIT_MESSAGE and await self.shown.has(message):",
        "        if False:",
        f"{SINK}::test_a_half_is_committed_when_asked_about_unless_its_row_is_shown",
    ),
    Mutant(
        "exactly-once",
        "what a broker said of its settings once is believed for ever",
        COMMIT,
        "            return address, await responder.quiet_ms(address, topic) if state is _COMMIT else None",
        "            told = responder.__dict__.setdefault('told', await responder.quiet_ms(address, topic))\n"
        "            return address, told if state is _COMMIT else None",
        f"{SINK}::test_a_broker_that_was_told_to_ask_earlier_is_left_to_ask_from_the_next_batch_on",
    ),
    Mutant(
        "exactly-once",
        "a half on its way is forgotten when another row fails",
        HALVES,
        "            failures = await flight.land()",
        "            failures: list[BaseException] = []",
        f"{SINK}::test_a_delayed_row_is_refused_and_what_was_sent_is_taken_back",
    ),
    Mutant(
        "exactly-once",
        "an END without an answer counts",
        "src/sprocketmq/spark/half_ends.py",
        "    except RocketMQError:\n        return False",
        "    except RocketMQError:\n        return True",
        f"{SINK}::test_a_commit_waits_for_halves_whose_ends_were_not_answered",
    ),
    Mutant(
        "exactly-once",
        "a decided batch is sent again",
        COMMIT,
        "            done.skipped = standing is Standing.DECIDED",
        "            done.skipped = False",
        f"{SINK}::test_a_batch_that_is_decided_is_not_sent_again",
    ),
    Mutant(
        "exactly-once",
        "an abort after a commit rolls back what was decided",
        COMMIT,
        "        if tasks and any(message is None for message in messages):",
        "        if tasks:",
        f"{SINK}::test_an_abort_takes_back_what_was_sent_unless_a_commit_may_have_been_tried",
    ),
    Mutant(
        "exactly-once",
        "rows of one key are ended all at once",
        HALVES,
        "    return row.message.topic, broker_name, queue_id if row.is_bound else -1",
        "    return row.message.topic, broker_name, -1",
        f"{SINK}::test_rows_of_one_key_keep_their_order",
    ),
    Mutant(
        "exactly-once",
        "a task ends its halves itself, and its rows are seen before anything is decided",
        COMMIT,
        "        done.sent, done.lanes, done.lost = sender.sent, sender.lanes, sorted(sender.lost)\n",
        "        done.sent, done.lanes, done.lost = sender.sent, sender.lanes, sorted(sender.lost)\n"
        "        responder.engine.run(self._end(responder, sender.lanes, _COMMIT))\n",
        f"{SINK}::test_rows_appear_with_the_commit_and_not_before",
    ),
    Mutant(
        "exactly-once",
        "a batch is decided whose halves were given up",
        COMMIT,
        "                    await self._refuse_too_old(responder, tasks)\n",
        "",
        f"{LONG}::test_a_batch_whose_halves_are_given_up_is_not_decided",
    ),
    Mutant(
        "exactly-once",
        "a decided batch fails because a broker is away",
        COMMIT,
        '            except RocketMQError as error:\n                log.info("halves of',
        '            except ValueError as error:\n                log.info("halves of',
        f"{LONG}::test_a_broker_that_stops_after_the_decision_fails_no_batch",
    ),
    Mutant(
        "exactly-once",
        "what a broker asked about counts as settled",
        "src/sprocketmq/spark/settling.py",
        "        return not self._open\n",
        "        return True\n",
        f"{LONG}::test_a_commit_waits_while_the_answer_to_a_question_is_not_known",
    ),
    Mutant(
        "exactly-once",
        "what a broker gave up is left where it is",
        "src/sprocketmq/spark/settling.py",
        "            await self._take_up(address, half)\n",
        "            pass\n",
        f"{LONG}::test_decided_rows_that_a_broker_gave_up_appear",
    ),
    Mutant(
        "exactly-once",
        "a half may be decided until the broker asks its last question",
        "src/sprocketmq/core/half_lifetime.py",
        "(questions - kept) * self.interval_ms",
        "questions * self.interval_ms",
        "tests/unit/core/test_half_lifetime.py::test_a_half_that_may_be_decided_has_a_question_left",
    ),
    Mutant(
        "exactly-once",
        "a process holds all decisions that were made in its life",
        CORE,
        "            self._forget_oldest()\n",
        "            pass\n",
        f"{LAWS}::test_a_ledger_stays_small_however_many_decisions_are_made",
    ),
    Mutant(
        "exactly-once",
        "a made-up name is still new when its decision was forgotten",
        CORE,
        "                self._new.discard(query)\n",
        "                pass\n",
        f"{LAWS}::test_what_was_forgotten_of_a_new_query_must_be_read_again",
    ),
]
