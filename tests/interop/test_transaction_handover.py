# SPDX-License-Identifier: Apache-2.0
"""Open transactions move with the store between Apache and us, both ways, over a kill: commits arrive once, rollbacks never."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from interop.child import poll_until
from interop.peers import APACHE_5, VERSIONS, ApacheCluster, Server, SprocketServer
from interop.send_ledger import bodies_of, read_topic
from interop.transaction_member import COMMIT, ROLLBACK, TransactionMember
from sprocketmq.store.tools.check import check_directory

pytestmark = pytest.mark.usefixtures("java_peers")

TOPIC = "handed-over"
CONF: dict[str, Any] = {
    "transactionCheckInterval": 1_000,
    "transactionTimeOut": 3_000,
    "transactionCheckMax": 1_000,
    "transactionOpBatchInterval": 100,
}


def decisions_of(names: Iterable[str]) -> dict[str, int]:
    """By the name's first letter: c commit, r rollback, u unknown."""
    return {name: {"c": COMMIT, "r": ROLLBACK}[name[0]] for name in names if name[0] in "cr"}


def open_some(member: TransactionMember, label: str) -> list[str]:
    """Six transactions, of which two are ended at once and four stay open."""
    names = [f"c-{label}-1", f"r-{label}-2", f"c-{label}-3", f"r-{label}-4", f"c-{label}-5", f"u-{label}-6"]
    halves = [member.half(name) for name in names]
    for half, decision in ((halves[0], COMMIT), (halves[1], ROLLBACK)):
        assert member.end(half, decision).code == 0
    return names[2:]


def answer_until_ended(server: Server, still_open: list[str]) -> set[str]:
    """Answer checks until each of the named transactions was asked for, then until a younger one was: nothing older is open then."""
    expected = set(still_open)
    with TransactionMember(server.broker_addr, TOPIC, decisions_of(still_open)) as member:
        poll_until(
            lambda: member.answer_checks() is not None and expected <= set(member.checked), "all are asked for", 60
        )
        probe = f"r-probe-{len(member.checked)}"
        member.decisions[probe] = ROLLBACK
        member.half(probe)
        poll_until(lambda: probe in member.answer_checks(), "a younger one is asked for")
        ended = {name for name in member.checked if name[0] in "cr" and name != probe}
        assert all(member.checked[name] == 1 for name in ended), f"asked again for what is ended: {member.checked}"
        return set(member.checked) - {probe}


def delivered(server: Server) -> list[str]:
    return bodies_of(server.namesrv_addr, TOPIC)


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_open_transactions_go_from_apache_to_us_over_a_kill_and_back(version, tmp_path):
    store = tmp_path / "store"
    with ApacheCluster(version, store, **{**CONF, "transactionTimeOut": 600_000}) as apache:
        apache.create_topic(TOPIC, 1)
        with TransactionMember(apache.broker_addr, TOPIC) as member:
            of_apache = open_some(member, "apache")
            marks_are_written(apache, 2)

    with SprocketServer(store, **CONF) as ours:
        assert delivered(ours) == ["c-apache-1"]
        asked = answer_until_ended(ours, of_apache)
        assert asked == set(of_apache), "what Apache knew to be ended is not asked for"
        assert delivered(ours) == ["c-apache-1", "c-apache-3", "c-apache-5"]
        with TransactionMember(ours.broker_addr, TOPIC) as member:
            of_ours = open_some(member, "ours")
            lost_answer = member.half("c-late")
        ours.kill()
        ours.start()
        with TransactionMember(ours.broker_addr, TOPIC) as member:
            assert member.end(lost_answer, COMMIT).code == 0, "the half outlived the kill"
            assert member.end(lost_answer, COMMIT).code == 0, "and is ended once"
    assert [str(problem) for problem in check_directory(store) if not problem.note] == []

    expected = ["c-apache-1", "c-apache-3", "c-apache-5", "c-late", "c-ours-1"]
    with ApacheCluster(version, store, **CONF) as apache:
        assert delivered(apache) == expected
        asked = answer_until_ended(apache, [*of_ours, "u-apache-6"])
        assert asked == {*of_ours, "u-apache-6"}, "what we knew to be ended is not asked for"
        expected = sorted([*expected, "c-ours-3", "c-ours-5"])
        assert delivered(apache) == expected
        marks_are_written(apache, 9)

    with SprocketServer(store, **CONF) as ours:
        assert answer_until_ended(ours, ["u-apache-6", "u-ours-6"]) == {"u-apache-6", "u-ours-6"}
        assert delivered(ours) == expected
    assert [str(problem) for problem in check_directory(store) if not problem.note] == []


def marks_are_written(apache: ApacheCluster, count: int) -> None:
    """5.x gathers its marks for a moment and loses them when it stops before; 4.9 writes each at once, and announces no op topic."""
    if apache.version == APACHE_5:
        poll_until(lambda: marks(apache) >= count, "the marks are written")


def marks(server: Server) -> int:
    """How many halves are marked in the op topic."""
    ops = read_topic(server.namesrv_addr, "RMQ_SYS_TRANS_OP_HALF_TOPIC")
    return sum(len([part for part in op.body.split(b",") if part]) for queue in ops.values() for op in queue)
