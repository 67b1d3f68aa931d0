# SPDX-License-Identifier: Apache-2.0
"""Merges two ledgers of one name. Writes of the others are refused, then they are read completely; decisions that only they have are
appended to the ledger that remains, in order for each query, as queries do not depend on each other; then they become placeholders. If
both ledgers decided a batch, for different attempts, a person must choose: nothing is changed. If the merge is stopped at any step,
queries still refuse the ledger, and the merge can be run again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sprocketmq.client.remoting.queue_offsets import queue_ends
from sprocketmq.client.results import SendStatus
from sprocketmq.core.produce.route_table import PERM_READ, PERM_READ_WRITE
from sprocketmq.core.transactions.decision_ledger import Decision, DecisionLedger
from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.spark.transactions.decision_topic import read_records
from sprocketmq.spark.transactions.ledger_location import PERM_NONE, ledger_brokers, set_permission
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.wire.records.message import Message, MessageQueue


@dataclass(frozen=True, slots=True)
class MergeResult:
    """How many decisions were copied, of which queries, and which brokers have only a placeholder now."""

    decisions: int
    queries: tuple[str, ...]
    emptied: tuple[str, ...]


async def merge_ledger(responder: Responder, topic: str, into: str, leave: Collection[str] = ()) -> MergeResult:
    """Copy the decisions of other brokers to the broker ``into``. ``leave``: queries whose decisions at other brokers are left out.
    Raises ConfigurationError (``into`` has no ledger; or both decided a batch), NetworkError, RequestTimeout, RemoteError."""
    cluster = responder.cluster
    route = await cluster.name_servers.route(topic)
    brokers = ledger_brokers({} if route is None else {data.broker_name: data.perm for data in route.queue_datas})
    if into not in brokers:
        raise ConfigurationError(
            f"--into is {into!r}, and the ledger {topic!r} is on {', '.join(brokers) or 'no broker'}; name one of these"
        )
    masters = await cluster.masters()
    if away := [name for name in brokers if name not in masters]:
        raise NetworkError(
            f"the ledger {topic!r} is on {', '.join(brokers)}, and {away[0]} has no master now; start it"
        )
    others = [name for name in brokers if name != into]
    for name in others:
        await set_permission(cluster, masters[name], topic, PERM_READ)
    kept = await _read(responder, topic, into, masters[into])
    known = MergedDecisions(kept, into)
    missing: list[Decision] = []
    try:
        for name in others:
            missing += known.add_missing(await _read(responder, topic, name, masters[name]), name, leave)
    except ConfigurationError:
        for name in others:
            await set_permission(cluster, masters[name], topic, PERM_READ_WRITE)
        raise
    await _append(responder, MessageQueue(topic, into, 0), missing, kept.end)
    for name in others:
        await set_permission(cluster, masters[name], topic, PERM_NONE)
    queries = tuple(sorted({decision.query for decision in missing}))
    return MergeResult(len(missing), queries, tuple(others))


async def _read(responder: Responder, topic: str, name: str, address: str) -> DecisionLedger:
    cluster, queue = responder.cluster, MessageQueue(topic, name, 0)
    start, end = await queue_ends(cluster, queue, at=address)
    ledger = DecisionLedger(end)
    records, oldest = await read_records(cluster, address, responder.group, queue, start, end)
    ledger.read_older(records, start, max(start, oldest))
    return ledger


class MergedDecisions:
    """The decisions of the merged ledger: its own and those added from others, with the broker of each."""

    def __init__(self, kept: DecisionLedger, into: str) -> None:
        self._known = {
            query: {decision.batch: (decision, into) for decision in chain} for query, chain in kept.decided().items()
        }

    def add_missing(self, other: DecisionLedger, name: str, leave: Collection[str]) -> list[Decision]:
        """The decisions of the broker ``name`` that are missing. Raises ConfigurationError (it decided a batch differently)."""
        found = []
        for query, chain in other.decided().items():
            if query in leave:
                continue
            known = self._known.setdefault(query, {})
            newest = max(known, default=-1)
            for decision in chain:
                same, where = known.get(decision.batch, (None, known[newest][1] if known else ""))
                if same is None and decision.batch > newest:
                    known[newest := decision.batch] = decision, name
                    found.append(decision)
                elif same is None or same.attempts != decision.attempts:
                    raise ConfigurationError(
                        f"batch {decision.batch} of {query} was decided at {name} and otherwise at {where}, so its rows may be there "
                        f"twice; look at them, then leave out what {name} says of it: --leave {query}. Nothing was changed"
                    )
        return found


async def _append(responder: Responder, queue: MessageQueue, decisions: list[Decision], end: int) -> None:
    for decision in decisions:
        anew = replace(decision, read_to=end)
        message = Message(queue.topic, anew.encode(), keys=f"{anew.query}/{anew.batch}")
        result = await responder.producer.send(message, queue=queue)
        if result.status is not SendStatus.SEND_OK:
            raise NetworkError(
                f"a decision was stored with {result.status.name}, so it may get lost", queue.broker_name
            )
        end = result.queue_offset + 1
