# SPDX-License-Identifier: Apache-2.0
"""The books of the kill storm notice what they are there for: each law, broken on purpose."""

from __future__ import annotations

import pytest

from interop.storm_ledger import LATER, RETRY, SCHEDULE, TOPIC, TRANSFERS, Seen, Sent, StormLedger
from interop.storm_tables import StormTables


@pytest.fixture
def ledger() -> StormLedger:
    made = StormLedger(1)
    made.sent = {
        1: Sent(0, TOPIC),
        2: Sent(0, TOPIC),
        3: Sent(1, TOPIC),
        4: Sent(0, LATER, delay_level=1),
        5: Sent(0, TRANSFERS, decision=8),
        6: Sent(0, TRANSFERS, decision=12),
    }
    return made


def place(ledger: StormLedger, topic: str, queue_id: int, *numbers: int, at_ms: int = 0) -> list[str]:
    """Put messages behind what is there, as an audit finds them; what it says about them."""
    said: list[str] = []
    for number in numbers:
        queue = ledger.found[topic, queue_id]
        queue.append(Seen(number, 100 * len(queue), at_ms))
        said += ledger._broken_new((topic, queue_id), len(queue) - 1, queue[-1])
    return said


def acknowledge(ledger: StormLedger, number: int, topic: str, queue_id: int, offset: int) -> None:
    ledger.receipts[number] = (topic, queue_id, offset)


def test_a_ledger_without_violations_passes(ledger):
    assert place(ledger, TOPIC, 0, 1, 3, 2) == []  # connections may overtake each other
    acknowledge(ledger, 3, TOPIC, 0, 1)
    assert list(ledger._broken_receipts(ledger.receipts)) == []


@pytest.mark.parametrize(("placed", "said"), [((), "is lost"), ((2, 1), "there is 2")])
def test_a_message_that_is_not_where_it_was_acknowledged_is_noticed(ledger, placed, said):
    place(ledger, TOPIC, 0, *placed)
    acknowledge(ledger, 1, TOPIC, 0, 0)
    assert said in next(ledger._broken_receipts(ledger.receipts))


@pytest.mark.parametrize(
    ("topic", "before", "queue_id", "number", "said"),
    [
        (TOPIC, 1, 0, 1, "twice"),
        (TOPIC, 1, 3, 1, "twice"),
        (TOPIC, 2, 0, 1, "behind its later 2"),
        (TOPIC, 1, 0, 99, "never sent"),
        (TOPIC, 1, 0, 4, "was sent to"),
        (TRANSFERS, 5, 0, 6, "rolled back"),
        (TRANSFERS, 5, 1, 5, "twice"),
    ],
)
def test_a_message_that_should_not_be_there_is_noticed(ledger, topic, before, queue_id, number, said):
    assert place(ledger, topic, 0, before) == []
    assert said in " ".join(place(ledger, topic, queue_id, number))


def test_messages_that_have_not_arrived_are_outstanding(ledger):
    for number, topic in ((4, SCHEDULE), (5, "halves"), (6, "halves")):
        acknowledge(ledger, number, topic, 0, 0)
    ledger._acks[1] = 2
    place(ledger, RETRY, 0, 1)
    assert ledger.outstanding() == {"delayed": 1, "committed": 1, "retries": 1}
    place(ledger, LATER, 0, 4)
    place(ledger, TRANSFERS, 0, 5)
    place(ledger, RETRY, 0, 1)
    assert ledger.outstanding() == {}


def test_a_delivery_before_its_time_and_one_out_of_nowhere_are_noticed(ledger):
    place(ledger, LATER, 0, 4, at_ms=1_999)
    assert "waited nowhere" in " ".join(ledger.broken_deliveries())
    place(ledger, SCHEDULE, 0, 4, at_ms=1_000)
    assert "before it was due" in " ".join(ledger.broken_deliveries())


def test_a_retry_that_waits_too_often_is_noticed(ledger):
    place(ledger, SCHEDULE, 0, 1, 1)
    ledger._tries[1] = ledger._acks[1] = 1
    assert "2 copies waited" in " ".join(ledger.broken_deliveries())


NOTHING: dict[str, dict[str, str]] = {kind: {} for kind in StormTables.KINDS}


@pytest.mark.parametrize("kind", StormTables.KINDS)
@pytest.mark.parametrize("open_request", [False, True])
def test_a_name_that_was_deleted_and_is_there_is_noticed_and_so_is_one_that_was_made_and_is_not(
    ledger, kind, open_request
):
    tables = ledger._tables
    tables._allowed = {(kind, "deleted"): (None,), (kind, "made"): ("2",), (kind, "cut off"): ("2", None)}
    found = {**NOTHING, kind: {"made": "2", **({"cut off": "2"} if open_request else {})}}
    assert tables.judge(found) == []
    wrong = {**NOTHING, kind: {"deleted": "1", "made": "1", "cut off": "1"}}
    assert len(tables.judge(wrong)) == 3
