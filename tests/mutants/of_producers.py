"""Mutants of producing: transactions, batching, request and reply, back-pressure, namespaces, the options of a send."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["PRODUCER_MUTANTS"]

CORE, CLIENT = "src/sprocketmq/core", "src/sprocketmq/client"
OPEN = "tests/unit/core/test_open_transactions.py"
BATCHES = "tests/unit/core/test_send_batches.py"
TRANSACTIONS = "tests/inproc/client/test_client_transactions.py"
BATCHING = "tests/inproc/client/test_client_batching.py"
REPLYING = "tests/inproc/client/test_client_request_reply.py"
PRESSURE = "tests/inproc/client/test_client_back_pressure.py"
NAMES = "tests/unit/client/test_namespace.py"
SPACES = "tests/inproc/client/test_client_namespace.py"
PARTS = "tests/unit/client/test_client_parts.py"
WRONG = "tests/inproc/client/test_client_wrong_values.py"
OPTIONS = "tests/inproc/client/test_client_send_options.py"

PRODUCER_MUTANTS = [
    Mutant(
        "producers",
        "an END names the half that was stored first, not its newest copy",
        f"{CORE}/transactions/open_transactions.py",
        "            known.place = place\n        if known is not None and known.is_checked",
        "            pass\n        if known is not None and known.is_checked",
        f"{OPEN}::test_an_end_names_the_newest_copy_that_the_halfs_own_broker_named",
    ),
    Mutant(
        "producers",
        "a check rolls back what still runs in this process",
        f"{CORE}/transactions/open_transactions.py",
        "if known.runs_here and state is LocalTransactionState.ROLLBACK_MESSAGE:",
        "if False:",
        f"{OPEN}::test_a_check_does_not_roll_back_what_still_runs_here",
    ),
    Mutant(
        "producers",
        "execute runs although the half is not stored safely",
        f"{CLIENT}/produce/transaction_producer.py",
        "        if half.status is not SendStatus.SEND_OK:\n            return self._run(",
        "        if False:\n            return self._run(",
        f"{TRANSACTIONS}::test_a_half_that_was_not_stored_safely_is_rolled_back_without_local_work",
    ),
    Mutant(
        "producers",
        "a half message is an ordinary one",
        f"{CLIENT}/produce/transaction_producer.py",
        'self._half_properties = {props.TRAN_MSG: "true", ',
        "self._half_properties = {",
        f"{TRANSACTIONS}::test_a_commit_shows_the_message_and_a_rollback_never_does",
    ),
    Mutant(
        "producers",
        "a batch of an ordered queue overtakes the one before",
        f"{CORE}/produce/send_batches.py",
        "if waiting[0] is batch and batch.lane not in self._out:",
        "if waiting[0] is batch:",
        f"{BATCHES}::test_of_an_ordered_lane_one_batch_is_out_and_the_next_waits_behind_it",
    ),
    Mutant(
        "producers",
        "a batch grows beyond what a broker takes",
        f"{CORE}/produce/send_batches.py",
        "if whole_bytes > self._limit and items:",
        "if False:",
        f"{BATCHES}::test_a_batch_never_grows_beyond_what_a_broker_takes_and_never_mixes_kinds",
    ),
    Mutant(
        "producers",
        "every message of a batch has the offset of the first",
        f"{CLIENT}/produce/batch_accumulator.py",
        "zip(keys, count(whole.queue_offset), ids)",
        "zip(keys, count(whole.queue_offset, 0), ids)",
        f"{BATCHING}::test_sends_that_come_together_travel_together_and_each_has_its_own_result",
    ),
    Mutant(
        "producers",
        "a key that moves to another queue leaves its order behind",
        f"{CLIENT}/produce/batch_accumulator.py",
        "if known is not None and known != newest and any(",
        "if False and any(",
        f"{BATCHING}::test_a_key_that_moves_to_another_queue_takes_its_order_along",
    ),
    Mutant(
        "producers",
        "shutdown forgets what lingers",
        f"{CLIENT}/produce/running_producer.py",
        "            self._end_checks, self.flush, self._end_batches, self._end_trace,",
        "            self._end_checks, self._end_trace,",
        f"{BATCHING}::test_shutdown_sends_what_lingers",
    ),
    Mutant(
        "producers",
        "a requester is deaf on a new connection until the next heartbeat",
        f"{CLIENT}/produce/request_reply.py",
        "                await instance.heartbeats.to(address)\n",
        "",
        f"{REPLYING}::test_a_broker_that_was_restarted_hears_of_the_requester_before_the_next_request",
    ),
    Mutant(
        "producers",
        "a request that nobody answers is kept for ever",
        f"{CLIENT}/produce/request_reply.py",
        "            del self._waiting[correlation_id]",
        "            pass",
        f"{REPLYING}::test_a_request_that_nobody_answers_ends_with_its_timeout_and_leaves_nothing",
    ),
    Mutant(
        "producers",
        "small bodies overtake a large one for ever",
        f"{CLIENT}/produce/send_permits.py",
        "if not self._waiting and self._fits(size_bytes):",
        "if self._fits(size_bytes):",
        f"{PRESSURE}::test_turns_come_in_order_and_a_large_body_is_not_overtaken",
    ),
    Mutant(
        "producers",
        "the prefix of a retry topic goes behind the namespace",
        f"{CLIENT}/settings/namespace.py",
        'return f"{prefix}{namespace}{_SEPARATOR}{own}"',
        'return f"{namespace}{_SEPARATOR}{name}"',
        f"{NAMES}::test_prefixes_stay_first_and_system_names_stay_as_they_are",
    ),
    Mutant(
        "producers",
        "listeners see the names of brokers",
        f"{CLIENT}/read/pull_loop.py",
        "            message.topic = unwrap(namespace, message.topic)",
        "            pass",
        f"{SPACES}::test_two_tenants_use_the_same_names_and_never_meet",
    ),
    Mutant(
        "producers",
        "a broker that failed is used again at once",
        f"{CLIENT}/remoting/sender.py",
        "lambda name: latency.is_available(name, now_ms)",
        "lambda name: True",
        f"{OPTIONS}::test_a_broker_that_failed_is_avoided_for_ten_seconds_and_then_used_again",
    ),
    Mutant(
        "producers",
        "a separator within a value is another property",
        "src/sprocketmq/wire/properties.py",
        "            or not value.isprintable()\n",
        "",
        f"{WRONG}::test_a_property_that_was_put_in_later_forges_no_other",
    ),
    Mutant(
        "producers",
        "a body that was changed is not looked at before a send",
        f"{CLIENT}/remoting/message_writer.py",
        "            or type(message.body) is not bytes\n",
        "",
        f"{WRONG}::test_what_is_put_into_a_message_later_is_looked_at_when_it_is_sent",
    ),
    Mutant(
        "producers",
        "a flag that was changed is not looked at before it joins a batch",
        f"{CLIENT}/produce/batch_accumulator.py",
        "self._max_body_bytes or message.flag is not _NO_FLAG:",
        "self._max_body_bytes:",
        f"{WRONG}::test_what_is_put_into_a_message_later_is_looked_at_when_it_is_sent",
    ),
    Mutant(
        "producers",
        "settings take any type",
        f"{CLIENT}/settings/send_settings.py",
        "        check_settings(self)\n",
        "",
        f"{WRONG}::test_each_argument_of_each_constructor",
    ),
    Mutant(
        "producers",
        "arguments of administrative requests are not looked at",
        f"{CLIENT}/admin/session.py",
        "                setattr(cls, name, checked(verb))\n",
        "                checked(verb)\n",
        f"{WRONG}::test_each_argument_of_each_verb",
    ),
    Mutant(
        "producers",
        "a pull consumer's group has the namespace in front",
        f"{CLIENT}/consume/pull_consumer.py",
        "        return self._group\n",
        "        return self._settings.group\n",
        f"{WRONG}::test_a_consumers_group_is_what_it_was_given_whatever_the_namespace",
    ),
    Mutant(
        "S6",
        "processes that share an offset file write into one temporary file",
        f"{CLIENT}/group/offset_store.py",
        ", shared=True)",
        ")",
        f"{PARTS}::test_processes_that_share_an_offset_file_never_write_into_one",
    ),
    Mutant(
        "S6",
        "a broken offset file becomes the backup",
        f"{CLIENT}/group/offset_store.py",
        "                self._set_aside()\n",
        "                pass\n",
        f"{PARTS}::test_a_broken_offset_file_is_kept_aside_and_never_takes_the_backups_place",
    ),
]
