# SPDX-License-Identifier: Apache-2.0
"""``settle`` answers check-backs for the producer group of a stopped transactional write; ``merge-ledger`` merges a ledger of several
brokers."""

from __future__ import annotations

import sys

from sprocketmq.cli.frame.target import Target
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.transactions.ledger_merge import merge_ledger
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.spark.transactions.settling import Settling, UncheckedHalfMessages


def settle_half_messages(
    group: str, topics: tuple[str, ...], target: Target, timeout_s: float, assignments: tuple[str, ...] = ()
) -> int:
    """Also resume half messages for which the ledger has a decision and which the brokers gave up. Returns the exit code: 1 if half
    messages of ``topics`` are left after ``timeout_s``."""
    responder = _member(group, topics, target, assignments)
    try:
        ends = responder.engine.run(responder.half_queue_ends())
        settling = Settling(responder, {queue: UncheckedHalfMessages(end) for queue, end in ends.items()})
        unsettled = responder.engine.run(settling.wait(int(timeout_s * 1000)))
        answers = dict(sorted(responder.answers.items()))
    finally:
        responder.close()
    counts = ", ".join(f"{count} {state}" for state, count in answers.items()) or "no check-back came"
    print(f"group {group}: {counts}")
    if settling.resumed:
        print(f"group {group}: resumed {settling.resumed} half messages that brokers had given up")
    if unsettled:
        print(f"{', '.join(unsettled)} did not ask about all half messages within {timeout_s:g} s", file=sys.stderr)
        return 1
    return 0


def merge_ledgers(
    topic: str, into: str, leave: tuple[str, ...], group: str, target: Target, assignments: tuple[str, ...] = ()
) -> int:
    """Copy the decisions of a ledger to the broker ``into``; the others keep an empty placeholder. ``leave``: queries whose decisions
    on the other brokers are ignored. Raises ConfigurationError (two brokers decided a batch differently)."""
    responder = _member(group, (), target, assignments)
    try:
        merged = responder.engine.run(merge_ledger(responder, topic, into, leave))
    finally:
        responder.close()
    whose = f" of {', '.join(merged.queries)}" if merged.queries else ""
    print(
        f"{merged.decisions} decisions{whose} copied to {into}; placeholder on: {', '.join(merged.emptied) or 'no other broker'}"
    )
    return 0


def _member(group: str, topics: tuple[str, ...], target: Target, assignments: tuple[str, ...]) -> Responder:
    given = dict(map(_option, assignments))
    of_target = {name.lower(): value for name, value in target.spark_options().items()}
    if {"accesskey", "secretkey", "secretkeyfile"} & given.keys():  # not mixed with keys from the environment
        of_target = {name: value for name, value in of_target.items() if "key" not in name}
    fixed = {"namesrvaddr": target.namesrv_addr, "group": group, "delivery": "transactional"}
    given = {**of_target, **given, **fixed}
    return Responder.at(sink_options(given), frozenset(topics))


def _option(assignment: str) -> tuple[str, str]:
    name, equals, value = assignment.partition("=")
    if not (name.strip() and equals):
        raise ConfigurationError(f"--option is {assignment!r}; NAME=VALUE is allowed, such as tls=true")
    return name.strip().lower(), value.strip()
