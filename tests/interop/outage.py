"""Bad weather over two name servers and two brokers, beside clients that must keep their promises: the heart of `make outage`.

    clients --> middlemen (127.0.0.2) --> two name servers, two brokers (127.0.0.1), each a process of its own

In turns one of them, or a whole kind, is frozen (SIGSTOP), killed, cut off, slow, silent, deaf or half-closed for some seconds. Beside it a
producer sends with sharding keys, a concurrent and an orderly group consume. Laws, judged at the end:

1. Every send ends within its timeout (and `SLACK_S` for a loaded machine).
2. Nothing acknowledged is lost: both groups get it.
3. Each queue is first seen in the order of its offsets by the orderly group.
4. A consumer begins at most two rebalances in any second.
5. Heartbeats to a broker that has no trouble are at most one period late.
6. Clients that only wait take less than 3 % of a core while everything is away.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import sprocketmq as rmq
from interop.apache_cluster import free_ports
from interop.child import Child, poll_until
from interop.middleman import Middleman
from interop.remoting import create_topic, has_route
from interop.sprocket_server import SprocketServer
from sprocketmq.client.running_consumer import RunningConsumer
from sprocketmq.errors import RequestTimeout, RocketMQError
from sprocketmq.wire.codes import RequestCode

__all__ = ["TROUBLES", "Outage"]

TROUBLES: Final = ("freeze", "kill", "cut", "slow", "silent", "deaf", "half-closed")
TOPIC: Final = "weather"
SLACK_S: Final = 2.0
TIMEOUT_MS: Final = 1_500
PERIOD_MS: Final = 2_000
_KEYS: Final = tuple(f"N{number}" for number in range(12))
_PATIENCE_S: Final = 120.0
_QUICK: Final[dict[str, Any]] = {
    "poll_name_server_interval_ms": 1_000,
    "heartbeat_broker_interval_ms": PERIOD_MS,
    "persist_consumer_offset_interval_ms": 1_000,
    "pull_time_delay_when_exception_ms": 500,
}


class Peer:
    """A name server or broker, with its middleman in front."""

    def __init__(self, folder: Path, kind: str, name: str, namesrv_addr: str) -> None:
        self.kind, self.name = kind, name
        self._folder, self._namesrv_addr = folder, namesrv_addr
        self.port = free_ports(-2, 1)
        self.address = f"127.0.0.2:{self.port}"
        self._middleman = Middleman(f"127.0.0.1:{self.port}", self.address)
        self._child: Child | None = None
        self.troubled: list[tuple[float, float]] = []  # from, until, of time.monotonic()

    def start(self) -> None:
        self.spawn()
        self._middleman.start()

    def spawn(self) -> None:
        command = SprocketServer.command()
        assert command is not None, "the sprocketmq command is not installed beside this Python"
        args = [command, self.kind, "--port", str(self.port)]
        if self.kind == "broker":
            args += ["--namesrv-addr", self._namesrv_addr, "--store", str(self._folder / self.name)]
            args += ["--set", f"brokerName={self.name}", "--set", "brokerIP1=127.0.0.2"]
        self._child = Child(args, self._folder / f"{self.name}.log")

    @contextlib.contextmanager
    def in_trouble(self, trouble: str) -> Iterator[None]:
        assert self._child is not None
        begin_s = time.monotonic()
        if trouble == "freeze":
            os.kill(self._child.pid, signal.SIGSTOP)
        elif trouble == "kill":
            self._child.kill()
        else:
            self._middleman.set_mood(trouble)
        try:
            yield
        finally:
            if trouble == "freeze":
                os.kill(self._child.pid, signal.SIGCONT)
            elif trouble == "kill":
                self.spawn()
            else:
                self._middleman.set_mood("cut")  # what was in a bad mood is not taken up again in the middle of a frame
                self._middleman.set_mood("pass")
            self.troubled.append((begin_s, time.monotonic()))

    def heartbeats_of(self, client_id: str) -> list[float]:
        wanted = client_id.encode()
        return [
            at_s
            for at_s, command in list(self._middleman.asked)
            if command.code == RequestCode.HEART_BEAT and wanted in bytes(command.body)
        ]

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
        self._middleman.stop()


class Outage:
    """Use as a context manager: everything is up and flows when it begins.

    Args:
        seed: of the troubles.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._folder = Path(tempfile.mkdtemp(prefix="outage-"))
        self._life = contextlib.ExitStack()
        self.acked: dict[str, tuple[str, int, int]] = {}
        self.refused = 0
        self.longest_send_s = 0.0
        self.consumed: set[str] = set()
        self.ordered: defaultdict[rmq.MessageQueue, list[int]] = defaultdict(list)
        self.ordered_bodies: set[str] = set()
        self.rounds: defaultdict[str, list[float]] = defaultdict(list)
        self.turns: list[str] = []
        self.broken: list[str] = []
        self.idle_share = 0.0
        self._ends = threading.Event()

    def __enter__(self) -> Outage:
        with contextlib.ExitStack() as life:
            life.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self.name_servers = [Peer(self._folder, "namesrv", f"namesrv-{n}", "") for n in "ab"]
            near = ";".join(f"127.0.0.1:{one.port}" for one in self.name_servers)
            self.brokers = [Peer(self._folder, "broker", f"broker-{n}", near) for n in "ab"]
            for peer in (*self.name_servers, *self.brokers):
                life.callback(peer.stop)
                peer.start()
            self.namesrv_addr = ";".join(one.address for one in self.name_servers)
            for broker in self.brokers:
                poll_until(lambda broker=broker: _made(broker.port), "the broker has the topic")
            for one in self.name_servers:
                poll_until(lambda one=one: has_route(f"127.0.0.1:{one.port}", TOPIC), "the name servers know the topic")
            self._count_rounds(life)
            self._start_clients(life)
            self._life = life.pop_all()
        return self

    def _count_rounds(self, life: contextlib.ExitStack) -> None:
        rebalance = RunningConsumer.rebalance

        async def counted(running: RunningConsumer) -> bool:
            self.rounds[f"{running.group_name} {running.instance.client_id}"].append(time.monotonic())
            return await rebalance(running)

        RunningConsumer.rebalance = counted  # type: ignore[method-assign]
        life.callback(setattr, RunningConsumer, "rebalance", rebalance)

    def _start_clients(self, life: contextlib.ExitStack) -> None:
        options = {"namesrv_addr": self.namesrv_addr, **_QUICK}
        first = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        concurrent = rmq.PushConsumer("concurrent", consume_from_where=first, **options)
        concurrent.subscribe(TOPIC)
        concurrent.on_message(lambda message: self.consumed.add(message.body.decode()))
        orderly = rmq.PushConsumer("orderly", consume_from_where=first, **options)
        orderly.subscribe(TOPIC)

        @orderly.orderly_listener
        def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
            self.ordered[messages[0].message_queue] += [message.queue_offset for message in messages]
            self.ordered_bodies.update(message.body.decode() for message in messages)
            return rmq.ConsumeOrderlyStatus.SUCCESS

        self.members = [concurrent, orderly]
        for member in self.members:
            member.start()
            life.callback(member.shutdown)
        senders = [threading.Thread(target=self._send, args=(part,), name=f"outage-{part}") for part in range(3)]
        self._producer = rmq.Producer(
            "outage", namesrv_addr=self.namesrv_addr, send_msg_timeout_ms=TIMEOUT_MS, poll_name_server_interval_ms=1_000
        )
        life.enter_context(self._producer)
        life.callback(lambda: [sender.join(_PATIENCE_S) for sender in senders])
        life.callback(self._ends.set)
        self._senders = senders
        for sender in senders:
            sender.start()
        poll_until(lambda: len(self.consumed) > 100 and len(self.ordered_bodies) > 100, "messages flow", 60)

    def _send(self, part: int) -> None:
        """A third of the keys, one message after the other."""
        keys = _KEYS[part::3]
        for number in itertools.count():
            if self._ends.is_set():
                return
            key = keys[number % len(keys)]
            body = f"{key} {number:09}"
            begin_s = time.monotonic()
            try:
                result = self._producer.send(rmq.Message(TOPIC, body.encode()), sharding_key=key)
            except RocketMQError as error:
                self.refused += 1
                if isinstance(error, RequestTimeout):
                    self._ends.wait(0.01)
                self._ends.wait(0.02)
            else:
                queue = result.message_queue
                self.acked[body] = (queue.broker_name, queue.queue_id, result.queue_offset)
            spent_s = time.monotonic() - begin_s
            self.longest_send_s = max(self.longest_send_s, spent_s)
            if spent_s > TIMEOUT_MS / 1000 + SLACK_S:
                self.broken.append(f"a send took {spent_s:.1f} s, {TIMEOUT_MS} ms are its timeout")
            self._ends.wait(0.01)

    # -- weather -----------------------------------------------------------------------------------------------------------------

    def turn(self, longest_s: float) -> str:
        """One trouble for somebody, and a pause; what it was."""
        who: list[Peer] = self.dice.choice([*([one] for one in (*self.name_servers, *self.brokers)), self.brokers])
        trouble = self.dice.choice(TROUBLES)
        with contextlib.ExitStack() as troubles:
            for one in who:
                troubles.enter_context(one.in_trouble(trouble))
            _pass(self.dice.uniform(longest_s / 3, longest_s))
        said = f"{trouble}: {', '.join(one.name for one in who)}"
        self.turns.append(said)
        _pass(self.dice.uniform(0.5, longest_s / 2))
        return said

    def idle(self, seconds: float) -> None:
        """Everything is away, and waiting consumers in a process of their own do nothing; law 6."""
        program = Path(__file__).with_name("idle_clients.py")
        with Child([sys.executable, str(program), self.namesrv_addr, TOPIC], self._folder / "idle.log") as child:
            assert child.read_line(60) == "ready"
            with contextlib.ExitStack() as troubles:
                for one in (*self.brokers, *self.name_servers):
                    troubles.enter_context(one.in_trouble("kill"))
                _pass(2.0)
                before, begin_s = _cpu_s(child.pid), time.monotonic()
                _pass(seconds)
                self.idle_share = (_cpu_s(child.pid) - before) / (time.monotonic() - begin_s)
        if self.idle_share > 0.03:
            self.broken.append(f"idle clients take {self.idle_share:.1%} of a core in an outage")

    # -- judging -----------------------------------------------------------------------------------------------------------------

    def judge(self) -> list[str]:
        """The broken laws; empty when all is well. Sending ends."""
        self._ends.set()
        for sender in self._senders:
            sender.join(_PATIENCE_S)
        ends_s = time.monotonic()
        wanted = set(self.acked)
        for name, seen in (("concurrent", self.consumed), ("orderly", self.ordered_bodies)):
            with contextlib.suppress(TimeoutError):
                poll_until(lambda seen=seen: wanted <= seen, "everything is consumed", _PATIENCE_S)
            if lost := wanted - seen:
                self.broken.append(f"{name}: {len(lost)} acknowledged messages never came, such as {sorted(lost)[:3]}")
        for queue, offsets in self.ordered.items():
            first_times = list(dict.fromkeys(offsets))
            if first_times != sorted(first_times):
                self.broken.append(f"{queue} was consumed out of order")
        for who, times in self.rounds.items():
            if (most := _most_in_a_second(times)) > 3:  # the start itself, which is no wish, and two
                self.broken.append(f"{who}: {most} rebalances in a second")
        for broker in self.brokers:
            for member in self.members:
                self.broken += _late_heartbeats(broker, member.client_id, ends_s)
        return self.broken[:20]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._life.close()


def _late_heartbeats(broker: Peer, client_id: str, ends_s: float) -> list[str]:
    """Law 5; a broker that had trouble is healthy again some seconds later, when its clients have found it."""
    period_s, again_s = PERIOD_MS / 1000, 6.0
    times = [at_s for at_s in broker.heartbeats_of(client_id) if at_s < ends_s]
    late = []
    for before, after in itertools.pairwise(times):
        is_troubled = any(begin < after and before < until + again_s for begin, until in broker.troubled)
        if not is_troubled and after - before > 2 * period_s + SLACK_S / 2:
            late.append(
                f"{broker.name}: no heartbeat of {client_id} for {after - before:.1f} s, due each {period_s:g} s"
            )
    return late


def _most_in_a_second(times: list[float]) -> int:
    times = sorted(times)
    return max(
        (sum(begin <= at < begin + 1.0 for at in times[place : place + 50]) for place, begin in enumerate(times)),
        default=0,
    )


def _made(port: int) -> bool:
    try:
        create_topic(f"127.0.0.1:{port}", TOPIC, 4, {})
    except (OSError, AssertionError):
        return False
    return True


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pass(seconds: float) -> None:
    """Trouble lasts: there is nothing to wait for but time."""
    time.sleep(seconds)
