"""Mutants of automatic batching: what each message of a batch costs, keeps, and is told."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["BATCHING_MUTANTS"]

WIRE, CLIENT, CORE = "src/sprocketmq/wire", "src/sprocketmq/client", "src/sprocketmq/core"
BATCHES = "tests/unit/core/test_send_batches.py"
BATCHING = "tests/inproc/client/test_client_batching.py"
VALUES = "tests/unit/wire/test_properties.py::test_a_value_is_taken_when_a_reader_would_see_it_whole"

BATCHING_MUTANTS = [
    Mutant(
        "batching",
        "a blank tag is taken, and no reader sees it",
        f"{WIRE}/properties.py",
        "if type(value) is str and value.isprintable() and value and not value.isspace():",
        "if type(value) is str and value.isprintable() and value:",
        VALUES,
    ),
    Mutant(
        "batching",
        "two keys with two blanks between them stay as they were typed",
        f"{WIRE}/properties.py",
        "if keys.isprintable() and keys and KEY_SEPARATOR not in keys:",
        "if keys.isprintable() and keys:",
        VALUES,
    ),
    Mutant(
        "batching",
        "a message that may not wait for the disk joins those that do",
        f"{CLIENT}/produce/batch_accumulator.py",
        "_NOT_JOINED: Final = _NOT_BATCHED | {props.WAIT, props.UNIQ_KEY}",
        "_NOT_JOINED: Final = _NOT_BATCHED | {props.UNIQ_KEY}",
        f"{BATCHING}::test_messages_that_may_not_wait_for_the_disk_travel_apart_from_those_that_do",
    ),
    Mutant(
        "batching",
        "a message that is sent again is another one",
        f"{CLIENT}/produce/batch_accumulator.py",
        "_NOT_JOINED: Final = _NOT_BATCHED | {props.WAIT, props.UNIQ_KEY}",
        "_NOT_JOINED: Final = _NOT_BATCHED | {props.WAIT}",
        f"{BATCHING}::test_a_message_that_is_sent_again_while_a_batch_is_open_keeps_its_key",
    ),
    Mutant(
        "batching",
        "a full batch waits for the clock",
        f"{CLIENT}/produce/batch_accumulator.py",
        "        elif self._batches.ready:\n",
        "        elif False:\n",
        f"{BATCHING}::test_a_message_lingers_no_longer_than_it_may_and_a_full_batch_not_at_all",
    ),
    Mutant(
        "batching",
        "what is wrong about one message breaks the call of its sender",
        f"{CLIENT}/produce/batch_accumulator.py",
        "            future.set_exception(error)\n            return True\n",
        "            raise\n",
        f"{BATCHING}::test_the_async_producer_batches_awaited_sends_too",
    ),
    Mutant(
        "batching",
        "what joined a closed batch is lost",
        f"{CORE}/produce/send_batches.py",
        "        if batch.is_closed:\n            return False\n",
        "",
        f"{BATCHES}::test_a_closed_batch_is_joined_by_nothing",
    ),
    Mutant(
        "batching",
        "properties of a batch may be longer than their length says",
        f"{WIRE}/batch.py",
        "text.isascii() and len(text) <= MAX_PROPERTIES_BYTES",
        "text.isascii()",
        f"{BATCHING}::test_the_async_producer_batches_awaited_sends_too",
    ),
    Mutant(
        "batching",
        "letters beyond ASCII break a batch",
        f"{WIRE}/batch.py",
        "text.isascii() and len(text) <= MAX_PROPERTIES_BYTES",
        "len(text) <= MAX_PROPERTIES_BYTES",
        "tests/unit/wire/test_batch.py::test_lone_surrogates_in_a_batch_become_question_marks",
    ),
    Mutant(
        "batching",
        "hooks see the first message of a batch only",
        f"{CLIENT}/produce/batch_accumulator.py",
        "self._is_watched = self._sender.hooks is not None",
        "self._is_watched = False",
        f"{BATCHING}::test_hooks_are_shown_every_message_of_a_batch",
    ),
    Mutant(
        "batching",
        "keys of a block come again",
        f"{CLIENT}/remoting/unique_keys.py",
        "for number in itertools.islice(self._counter, _BLOCK)",
        "for number in range(_BLOCK)",
        "tests/unit/client/test_client_parts.py::test_unique_keys_differ_and_carry_the_time",
    ),
    Mutant(
        "batching",
        "a refused batch may be tried again at the same broker",
        "src/sprocketmq/core/produce/send_latency.py",
        "            if name != last_broker and",
        "            if",
        "tests/inproc/client/test_client_batching.py::test_a_refused_batch_goes_to_the_other_broker_as_a_whole",
    ),
]
