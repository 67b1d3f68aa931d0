# SPDX-License-Identifier: Apache-2.0
"""Bad weather over two name servers and two brokers, ours or Apache's, beside clients that must keep their promises: `make outage`.

In turns one of the servers, or both brokers, is frozen (SIGSTOP), killed, cut off, slow, silent, deaf or half-closed for some seconds
(``outage_servers``). Beside it senders of all kinds send, a concurrent and an orderly group consume (``outage_clients``), and clients in a
process of their own only wait (``idle_clients.py``). Laws, judged at the end:

1. Every send ends within its timeout.
2. Nothing acknowledged is lost: both groups get it.
3. Each queue is first seen in the order of its offsets by the orderly group, whose queues move between three members.
4. A consumer begins at most two rebalances in any second, its start included.
5. Heartbeats to a healthy broker are late by at most one period: two of a client are never more than two periods apart. A broker is healthy
   while it has no trouble and every name server that knows the topic names it; who comes back is found within ``FOUND_S``.
6. Clients that only wait take less than 3 % of a core, in the turns of each trouble, and while everything is killed, frozen or cut off.

Laws 1 and 5 allow what the machine withheld from the threads that keep them (``withheld``), and ``GRAIN_S``.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Final

from interop.child import HANG_S, Child, poll_until
from interop.outage_clients import GRAIN_S, PERIOD_MS, POLL_MS, Clients, Ledger, engine_thread
from interop.outage_servers import OURS, TROUBLES, Middlemen, Peer, has_topic, named_brokers
from interop.withheld import withheld_s

TOPIC: Final = "weather"
CALM_TOPIC: Final = "calm"  # of those who only wait
MOST_IDLE_SHARE: Final = 0.03
# The next look at the name servers, and a question to two of which one says nothing (mq_client_api_timeout_ms).
FOUND_S: Final = POLL_MS / 1000 + 3.0
_LOOK_S: Final = 0.25
_JUDGED_S: Final = 8.0  # less is too short to say what share of a core it took
_AWAY: Final = ("kill", "freeze", "cut")
Span = tuple[float, float]


class Outage:
    """Use as a context manager: everything is up and flows when it begins.

    Args:
        seed: of the troubles.
        servers: whose, one of ``outage_servers.SERVERS``.
    """

    def __init__(self, seed: int, servers: str = OURS) -> None:
        self.dice, self._kind = random.Random(seed), servers
        self._folder = Path(tempfile.mkdtemp(prefix="outage-"))
        self._life = contextlib.ExitStack()
        self.ledger = Ledger()
        self.turns: list[str] = []
        self.broken: list[str] = []
        self._waited: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # by trouble: CPU, and time
        self._unnamed: defaultdict[str, list[Span]] = defaultdict(list)  # by broker: name servers did not name it
        self._withheld: list[tuple[float, dict[tuple[int, int], float]]] = []  # when, and seconds so far by thread
        self._ends = threading.Event()

    def __enter__(self) -> Outage:
        with contextlib.ExitStack() as life:
            life.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self.name_servers = [Peer(self._kind, self._folder, "namesrv", f"namesrv-{n}", "") for n in "ab"]
            near = ";".join(one.near_address for one in self.name_servers)
            self.brokers = [Peer(self._kind, self._folder, "broker", f"broker-{n}", near) for n in "ab"]
            self._peers = [*self.name_servers, *self.brokers]
            self._middlemen = Middlemen(self._peers, self._folder / "middlemen.log")
            life.callback(self._middlemen.stop)
            self._start_servers(life)
            self.namesrv_addr = ";".join(one.address for one in self.name_servers)
            program = Path(__file__).with_name("idle_clients.py")
            idle = Child([sys.executable, str(program), self.namesrv_addr, CALM_TOPIC], self._folder / "idle.log")
            self._idle = life.enter_context(idle)
            assert idle.read_line(60) == "ready"
            self._clients = Clients(self.namesrv_addr, TOPIC, self.ledger, life)
            self._clients.start()
            watcher = threading.Thread(target=self._watch, name="outage-watcher")
            life.callback(watcher.join, HANG_S)
            life.callback(self._ends.set)
            watcher.start()
            self._began_s = time.monotonic()
            self._life = life.pop_all()
        return self

    def _start_servers(self, life: contextlib.ExitStack) -> None:
        for peer in self._peers:
            life.callback(peer.stop)
            peer.spawn()
            peer.until_it_listens()
        for broker, topic in itertools.product(self.brokers, (TOPIC, CALM_TOPIC)):
            poll_until(partial(has_topic, broker, topic), "the broker has the topic")
        both = {one.name for one in self.brokers}

        def all_named(name_server: Peer, topic: str) -> bool:
            return named_brokers(name_server, topic) == both

        for one, topic in itertools.product(self.name_servers, (TOPIC, CALM_TOPIC)):
            poll_until(partial(all_named, one, topic), "the topic is known")

    def _watch(self) -> None:
        """Which brokers the name servers do not name, and what the machine withholds."""
        engine, before_s = engine_thread(), time.monotonic()
        while not self._ends.wait(_LOOK_S):
            known = [names for one in self.name_servers if (names := named_brokers(one, TOPIC)) is not None]
            now_s = time.monotonic()
            for broker in self.brokers:
                if any(broker.name not in names for names in known):
                    self._unnamed[broker.name].append((before_s, now_s))
            self._withheld.append((now_s, {one: withheld_s(engine, one) for one in self._middlemen.threads}))
            before_s = now_s

    # -- weather -----------------------------------------------------------------------------------------------------------------

    def turn(self, longest_s: float) -> str:
        """One trouble for somebody, and a pause; what it was."""
        who: list[Peer] = self.dice.choice([*([one] for one in self._peers), self.brokers])
        trouble = self.dice.choice(TROUBLES)
        with contextlib.ExitStack() as troubles:
            for one in who:
                troubles.enter_context(one.in_trouble(trouble, self._middlemen))
            with self._waiting(trouble):
                _pass(self.dice.uniform(longest_s / 3, longest_s))
        said = f"{trouble}: {', '.join(one.name for one in who)}"
        self.turns.append(said)
        _pass(self.dice.uniform(0.5, longest_s / 2))
        return said

    def all_away(self, seconds: float) -> None:
        """Everything is away, in one way after the other."""
        for trouble in _AWAY:
            with contextlib.ExitStack() as troubles:
                for one in self._peers:
                    troubles.enter_context(one.in_trouble(trouble, self._middlemen))
                with self._waiting(f"{trouble}, all of them"):
                    _pass(seconds)

    @contextlib.contextmanager
    def _waiting(self, trouble: str) -> Iterator[None]:
        before, begin_s = _cpu_s(self._idle.pid), time.monotonic()
        yield
        waited = self._waited[trouble]
        waited[0] += _cpu_s(self._idle.pid) - before
        waited[1] += time.monotonic() - begin_s

    # -- judging -----------------------------------------------------------------------------------------------------------------

    def judge(self) -> list[str]:
        """The broken laws; empty when all is well. Sending ends."""
        ends_s = time.monotonic()
        self._clients.stop_sending()
        ledger = self.ledger
        self.broken += ledger.late
        for name, seen in (("concurrent", ledger.consumed), ("orderly", ledger.ordered_bodies)):
            with contextlib.suppress(TimeoutError):
                poll_until(partial(ledger.acked.issubset, seen), "everything is consumed", pause_s=0.5)
            if lost := ledger.acked - seen:
                self.broken.append(f"{name}: {len(lost)} acknowledged messages never came, such as {sorted(lost)[:3]}")
        for queue, offsets in ledger.ordered.items():
            first_times = list(dict.fromkeys(offsets))
            if first_times != sorted(first_times):
                self.broken.append(f"{queue} was consumed out of order")
        for who, times in ledger.rounds.items():
            if (most := _most_in_a_second(times)) > 2:
                self.broken.append(f"{who}: {most} rebalances in a second")
        self._life.close()  # now each client has lived
        for broker, (client_id, from_s, until_s) in itertools.product(self.brokers, ledger.lives):
            for begin_s, end_s in self._healthy(broker, from_s, min(until_s, ends_s)):
                self.broken += self._late_heartbeats(broker.name, client_id, begin_s, end_s)
        for trouble, (cpu_s, waited_s) in self._waited.items():
            if waited_s >= _JUDGED_S and cpu_s / waited_s >= MOST_IDLE_SHARE:
                self.broken.append(f"{trouble}: clients that only wait take {cpu_s / waited_s:.1%} of a core")
        return self.broken

    def _healthy(self, broker: Peer, from_s: float, until_s: float) -> Iterator[Span]:
        for begin_s, end_s in sorted([*broker.troubled, *self._unnamed[broker.name], (until_s, until_s)]):
            if begin_s > until_s:
                break
            if begin_s > from_s:
                yield from_s, begin_s
            from_s = max(from_s, end_s)

    def _late_heartbeats(self, broker: str, client_id: str, begin_s: float, end_s: float) -> Iterator[str]:
        """Law 5."""
        times = [at_s for at_s in self._middlemen.heartbeats[broker, client_id] if begin_s <= at_s <= end_s]
        two_periods_s = 2 * PERIOD_MS / 1000
        for before_s, after_s in itertools.pairwise([begin_s, *times, end_s]):
            limit_s = two_periods_s + (FOUND_S if before_s == begin_s else 0.0) + self._withheld_s(before_s, after_s)
            if after_s - before_s > limit_s + GRAIN_S:
                yield (
                    f"{broker}: no heartbeat of {client_id} for {after_s - before_s:.1f} s, due each {PERIOD_MS} ms"
                    f"{', since it was healthy again' if before_s == begin_s else ''}"
                )

    def _withheld_s(self, begin_s: float, end_s: float) -> float:
        """From the clients' thread and from one of the middlemen, the one that had to wait longest."""
        before = bisect.bisect(self._withheld, begin_s, key=itemgetter(0)) - 1
        after = bisect.bisect(self._withheld, end_s, key=itemgetter(0))
        first, last = self._withheld[max(before, 0)][1], self._withheld[min(after, len(self._withheld) - 1)][1]
        return max((last[one] - first[one] for one in first.keys() & last.keys()), default=0.0)

    def report(self) -> Iterator[str]:
        """What was judged, in numbers."""
        ledger = self.ledger
        for trouble, count in sorted(Counter(self.turns).items()):
            yield f"{count:5} x {trouble}"
        for kind, count in ledger.ended.items():
            spent_s, machine_s = ledger.longest[kind]
            yield f"{count:7,} sends ({kind}), the longest took {spent_s:.2f} s, {machine_s:.2f} s of it the machine withheld"
        yield f"{len(ledger.acked):,} messages acknowledged, {ledger.refused:,} sends refused"
        yield f"{ledger.moves:,} times a queue of the orderly group changed hands"
        rounds = {who: _most_in_a_second(times) for who, times in ledger.rounds.items()}
        yield f"{sum(map(len, ledger.rounds.values())):,} rebalances, at most {max(rounds.values())} in a second and consumer"
        beats = sum(map(len, self._middlemen.heartbeats.values()))
        withheld = self._withheld_s(self._withheld[0][0], self._withheld[-1][0])
        yield f"{beats:,} heartbeats; of {self._withheld[-1][0] - self._withheld[0][0]:.0f} s the machine withheld {withheld:.1f} s"
        shares = (f"{trouble} {cpu_s / waited_s:.2%}" for trouble, (cpu_s, waited_s) in self._waited.items())
        yield f"clients that only wait took, of a core: {'; '.join(shares)}"

    def __exit__(self, *raised: object) -> None:
        self._life.close()


def _most_in_a_second(times: list[float]) -> int:
    return max(
        (sum(begin <= at < begin + 1.0 for at in times[place : place + 50]) for place, begin in enumerate(times)),
        default=0,
    )


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pass(seconds: float) -> None:
    """Trouble lasts: there is nothing to wait for but time."""
    time.sleep(seconds)
