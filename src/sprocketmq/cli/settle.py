"""``sprocketmq settle`` answers for a producer group of transactional Spark writes when no query does; ``merge-ledger`` makes one
of a ledger that is on several brokers."""

from __future__ import annotations

import sys

from sprocketmq.cli.frame.target import Target
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.transactions.ledger_merge import merge_ledger
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.spark.transactions.settling import LeftHalves, Settling

__all__ = ["merge_decisions", "settle_halves"]


def settle_halves(
    group: str,
    topics: tuple[str, ...],
    target: Target,
    timeout_s: float,
    assignments: tuple[str, ...] = (),
) -> int:
    """Answer checks from the ledger until the brokers of ``topics`` have asked about every half message that they hold now, and take up
    decided ones again that they gave up.

    Args:
        assignments: further options of the write, each ``NAME=VALUE``.

    Returns:
        The exit code: 0, or 1 when they have not when ``timeout_s`` is over.

    Raises:
        ConfigurationError: an option is wrong; the sentence names it.
        NetworkError, RequestTimeout, RemoteError: as a Spark write.
    """
    responder = _member(group, topics, target, assignments)
    try:
        ends = responder.engine.run(responder.half_queue_ends())
        settling = Settling(responder, {queue: LeftHalves(end) for queue, end in ends.items()})
        unsettled = responder.engine.run(settling.wait(int(timeout_s * 1000)))
        answers = dict(sorted(responder.answers.items()))
    finally:
        responder.close()
    told = ", ".join(f"{count} {state}" for state, count in answers.items()) or "no question came"
    print(f"group {group}: {told}")
    if settling.resumed:
        print(f"group {group}: {settling.resumed} given up by brokers were taken up again")
    if unsettled:
        print(f"{', '.join(unsettled)} did not ask about all half messages within {timeout_s:g} s", file=sys.stderr)
        return 1
    return 0


def merge_decisions(
    topic: str,
    into: str,
    leave: tuple[str, ...],
    group: str,
    target: Target,
    assignments: tuple[str, ...] = (),
) -> int:
    """Copy the decisions of a ledger that is on several brokers to one of them; the others only keep its place afterwards.

    Raises:
        ConfigurationError: an option is wrong, or two brokers decided a batch differently; the sentence names it.
        NetworkError, RequestTimeout, RemoteError: a broker is away, or refuses.
    """
    responder = _member(group, (), target, assignments)
    try:
        merged = responder.engine.run(merge_ledger(responder, topic, into, leave))
    finally:
        responder.close()
    whose = f" of {', '.join(merged.queries)}" if merged.queries else ""
    print(
        f"{merged.decisions} decisions{whose} copied to {into}; {', '.join(merged.emptied) or 'no other broker'} keeps the place"
    )
    return 0


def _member(
    group: str,
    topics: tuple[str, ...],
    target: Target,
    assignments: tuple[str, ...],
) -> Responder:
    given = dict(map(_option, assignments))
    keys = {
        "accesskey": target.access_key,
        "secretkey": target.secret_key,
        "secretkeyfile": target.secret_key_file,
    }
    # A key of the environment does not stand beside one that was given in another way.
    if not keys.keys() & given.keys():
        given.update({name: value for name, value in keys.items() if value})
    if target.tls or target.tls_ca:
        given.setdefault("tls", "true")
        given.setdefault("tlstrustcertpath", target.tls_ca or "")
    given.update({"namesrvaddr": target.namesrv_addr, "group": group, "delivery": "transactional"})
    return Responder.at(sink_options(given), frozenset(topics))


def _option(assignment: str) -> tuple[str, str]:
    """Raises ConfigurationError: it is none."""
    name, equals, value = assignment.partition("=")
    if not (name.strip() and equals):
        raise ConfigurationError(f"--option is {assignment!r}; NAME=VALUE is allowed, such as tls=true")
    return name.strip().lower(), value.strip()
