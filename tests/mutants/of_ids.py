"""Mutants of what a broker makes of the forms in which official clients send: each message of a batch keeps its own id."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["ID_MUTANTS"]

BROKER = "src/sprocketmq/broker"
BATCH_IDS = "tests/inproc/broker/test_batch_ids.py"
SHORT_WAYS = "tests/inproc/broker/test_broker_short_ways.py"

ID_MUTANTS = [
    Mutant(
        "ids",
        "a batch's own key goes behind the properties of each message",
        f"{BROKER}/handlers/messages/send.py",
        "        messages.append(\n            StoredMessage(topic, queue_id, part, raw,",
        "        messages.append(\n            StoredMessage(topic, queue_id, part, raw + (header.properties or '').encode(),",
        BATCH_IDS,
    ),
    Mutant(
        "ids",
        "and on the short way",
        f"{BROKER}/plain_batches.py",
        "        properties = batch.properties\n",
        "        properties = batch.properties + ext.i.encode()\n",
        BATCH_IDS,
    ),
    Mutant(
        "ids",
        "a message's last separator is written for it",
        f"{BROKER}/handlers/messages/send.py",
        "        code = tags_code(props.get_property(raw, props.TAGS)) if b",
        "        raw = raw.rstrip(b'\\x02') + b'\\x02'\n        code = tags_code(props.get_property(raw, props.TAGS)) if b",
        BATCH_IDS,
    ),
    Mutant(
        "ids",
        "a batch without a key is answered with an empty one",
        f"{BROKER}/plain_sends.py",
        '{unique_key}\' if unique_key else ""',
        "{unique_key}'",
        BATCH_IDS,
    ),
    Mutant(
        "ids",
        "another name that ends alike is taken for a batch's key",
        f"{BROKER}/plain_batches.py",
        "common.count(_KEY) == has_key and",
        "common.count(_KEY) <= 1 and",
        SHORT_WAYS,
    ),
    Mutant(
        "ids",
        "the marks of another broker stay",
        f"{BROKER}/tables/stamps.py",
        "                raw = props.remove_property(raw, name)\n",
        "                pass\n",
        "tests/inproc/broker/test_broker_send.py::test_the_marks_of_another_broker_go",
    ),
    Mutant(
        "ids",
        "and on the short way",
        f"{BROKER}/plain_sends.py",
        " and marked.startswith(raw):",
        ":",
        SHORT_WAYS,
    ),
    Mutant(
        "ids",
        "a committed message keeps the way to its queue",
        f"{BROKER}/delivery/transactions.py",
        "    message = _copy(half, topic, raw)\n",
        "    message = _copy(half, topic, half.raw_properties)\n",
        "tests/inproc/broker/test_broker_transactions.py::test_a_commit_stores_the_message_and_marks_the_half",
    ),
    Mutant(
        "ids",
        "a batch that has a delay itself is stored as if it had none",
        f"{BROKER}/handlers/messages/send.py",
        "    if is_delayed(of_batch):\n",
        "    if False:\n",
        "tests/inproc/broker/test_broker_send.py::test_a_batch_that_has_a_delay_itself_is_refused",
    ),
]
