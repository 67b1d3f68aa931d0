"""Two ledgers of one name made one: the decisions that only other brokers hold are decided once more, in the same words, where it shall be.

    others: no writes any more --> read whole --> append to the one what it lacks, query by query, in order --> others only keep its place

Two came about before brokers kept the place (``ledger_place``), or by hand. Chains of different queries do not depend on each other
(core.decision_ledger), so a query that is only on one side moves as it is.

Laws (tests/inproc/spark/test_ledger_place.py)
1. A batch that both sides decided, for different attempts, is a question for a person: nothing is changed.
2. Stopped at any step, it is refused by every query still, and can be run again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sprocketmq.client.results import SendStatus
from sprocketmq.core.transactions.decision_ledger import Decision, DecisionLedger
from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.spark.transactions.decision_topic import read_records
from sprocketmq.spark.transactions.ledger_place import NOTHING, READ, READ_WRITE, homes_of, masters_of, set_permission
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.wire.records.message import Message, MessageQueue

__all__ = ["Known", "Merged", "merge_ledger"]


@dataclass(frozen=True, slots=True)
class Merged:
    """How many decisions were copied, of which queries, and which brokers only keep the place now."""

    decisions: int
    queries: tuple[str, ...]
    emptied: tuple[str, ...]


async def merge_ledger(responder: Responder, topic: str, into: str, leave: Collection[str] = ()) -> Merged:
    """Copy to the broker ``into`` what other brokers have decided.

    Args:
        leave: queries whose decisions at other brokers are left out, where both sides decided the same batches.

    Raises:
        ConfigurationError: ``into`` is no broker of the ledger; or both sides decided a batch (law 1).
        NetworkError, RequestTimeout, RemoteError: a broker is away, or refuses.
    """
    api = responder.cluster.api
    route = await api.route(topic)
    homes = homes_of({} if route is None else {data.broker_name: data.perm for data in route.queue_datas})
    if into not in homes:
        raise ConfigurationError(
            f"--into is {into!r}, and the ledger {topic!r} is on {', '.join(homes) or 'no broker'}; name one of these"
        )
    masters = await masters_of(api)
    if away := [name for name in homes if name not in masters]:
        raise NetworkError(f"the ledger {topic!r} is on {', '.join(homes)}, and {away[0]} has no master now; start it")
    others = [name for name in homes if name != into]
    for name in others:
        await set_permission(api, masters[name], topic, READ)
    kept = await _read(responder, topic, into, masters[into])
    known = Known(kept, into)
    missing: list[Decision] = []
    try:
        for name in others:
            missing += known.add_missing(await _read(responder, topic, name, masters[name]), name, leave)
    except ConfigurationError:
        for name in others:
            await set_permission(api, masters[name], topic, READ_WRITE)
        raise
    await _append(responder, MessageQueue(topic, into, 0), missing, kept.end)
    for name in others:
        await set_permission(api, masters[name], topic, NOTHING)
    queries = tuple(sorted({decision.query for decision in missing}))
    return Merged(len(missing), queries, tuple(others))


async def _read(responder: Responder, topic: str, name: str, address: str) -> DecisionLedger:
    api, queue = responder.cluster.api, MessageQueue(topic, name, 0)
    start, end = await api.min_offset(address, queue), await api.max_offset(address, queue)
    ledger = DecisionLedger(end)
    records, oldest = await read_records(api, address, responder.group, queue, start, end)
    ledger.read_older(records, start, max(start, oldest))
    return ledger


class Known:
    """What the one ledger will hold: its own decisions, and those that other ledgers have added; and which broker each is from."""

    def __init__(self, kept: DecisionLedger, into: str) -> None:
        self._known = {
            query: {decision.batch: (decision, into) for decision in chain} for query, chain in kept.decided().items()
        }

    def add_missing(self, other: DecisionLedger, name: str, leave: Collection[str]) -> list[Decision]:
        """The decisions of the broker ``name`` that are not known yet (law 1).

        Raises:
            ConfigurationError: it decided a batch otherwise.
        """
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
