# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a run, and when. Each run draws which kinds of trouble it has (swarm testing): a run with all of them at once hides
what only some of them bring about."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

    from sprocketmq.testing.simulation.disk import HostDisk
    from sprocketmq.testing.simulation.draws import Draws
    from sprocketmq.testing.simulation.network import Host, Process
    from sprocketmq.testing.simulation.world import World

KINDS: Final = (
    "spikes",  # pieces that take up to 400 ms
    "resets",  # connections that break
    "walls",  # nothing gets through between two hosts, in one direction or both
    "freezes",  # processes that stand still
    "kills",  # processes that end, and start again
    "power",  # hosts that are silent, have lost what was not synced, and start again
    "forgotten",  # connections that a firewall has forgotten: half-open, nothing gets through any more
    "narrow",  # hosts that send 500 to 50,000 bytes a second
    "deaf",  # processes that read nothing from their connections, and go on otherwise
    "refusals",  # hosts that refuse new connections
    "moves",  # servers that start again at another address, to which their name leads
    "clocks",  # clocks that are set
    "drift",  # clocks that are too slow or too fast, or stand still
    "full",  # disks without space
    "errors",  # writes and syncs that fail
    "slow",  # disks that take up to 20 s
    "short",  # writes that take only a part
)

# What a run draws its kinds from: all, or those of one family, which is then seen in more of its states.
_FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "all": (*KINDS, "kills", "power", "power"),  # most of the faults of stores need them
    "disks": ("kills", "power", "full", "errors", "slow", "short"),
    "network": ("resets", "walls", "freezes", "forgotten", "deaf", "refusals", "moves", "walls", "forgotten"),
}
# A timer message that is late by more than 7 days is delivered without the wheel.
_DAYS_MS: Final = (5 * 86_400_000, 9 * 86_400_000)


@dataclass(frozen=True)
class Weather:
    """``kinds``: some of :data:`KINDS`; None draws them. ``every_ms``: from one trouble to the next, on average; a run draws a factor of
    5, 1 or 0.3. ``lasts_ms``: the most that one lasts."""

    kinds: Collection[str] | None = None
    every_ms: float = 4_000
    lasts_ms: float = 45_000

    def drawn(self, draws: Draws) -> list[str]:
        if self.kinds is None:
            return draws.some_of("kinds", _FAMILIES[draws.choice("weather", [*_FAMILIES])], KINDS)
        return draws.chosen("kinds", self.kinds, KINDS)


CALM: Final = Weather(kinds=())


class Sky:
    """Carries out the weather of one run, until ``clear``."""

    def __init__(self, world: World, weather: Weather) -> None:
        self._world, self._weather, self._draws = world, weather, world.draws
        self.kinds = weather.drawn(self._draws)
        # Of one kind. What a run has of other kinds does not count, so that a run with fewer of them has the same troubles.
        self._every_ms = (
            weather.every_ms * self._draws.choice("calmness", [5, 1, 0.3]) * self._draws.number("kinds at once", 1, 4)
        )
        self._only = self._draws.given_list("troubles")
        self._happened: list[str] = []
        self._rng = self._draws.stream("weather")  # later, that of each trouble
        self._ends: dict[int, Callable[[], object]] = {}  # of troubles that last
        self._rngs: dict[Host, random.Random] = {}  # of the troubles that end a process at its disk
        self._healed_s: dict[Host, float] = {}
        self._numbers = itertools.count()
        self._is_clear = False
        self._begun = False
        self._troubles: dict[str, Callable[[], None]] = {
            "resets": self._reset,
            "walls": self._build_wall,
            "freezes": self._freeze,
            "kills": self._kill,
            "power": self._cut_power,
            "forgotten": self._forget_connection,
            "narrow": self._narrow_link,
            "deaf": self._deafen,
            "refusals": self._refuse,
            "moves": self._move,
            "clocks": self._set_clock,
            "drift": self._let_clock_drift,
            "full": self._fill_disk,
            "errors": self._break_disk,
            "slow": self._slow_disk,
            "short": self._shorten_writes,
        }

    def begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        if "spikes" in self.kinds:
            self._world.network.spikes = self._draws.choice("spikes", [0.001, 0.01, 0.1])
        for kind in self.kinds:
            if kind in self._troubles:
                task = self._world.loop.create_task(self._run(kind))
                task.add_done_callback(partial(self._world.fail_with, whose=f"the weather ({kind})"))

    async def _run(self, kind: str) -> None:
        """Each trouble has random numbers of its own: without the others it is the same."""
        for number in itertools.count():
            name = f"{kind}-{number}"
            rng = self._draws.stream(name)
            await asyncio.sleep(rng.expovariate(1 / self._every_ms) / 1000)
            if self._is_clear:
                return
            if self._only is None or name in self._only:
                self._rng = rng
                self._happened.append(name)
                self._draws.keep("troubles", self._happened)
                self._troubles[kind]()

    def clear(self) -> None:
        """End all trouble: dead hosts start, frozen ones go on, walls are gone. Clocks stay as they are."""
        self._is_clear = True
        self._world.network.spikes = 0.0
        ends, self._ends = self._ends, {}
        for end in ends.values():
            end()
        for host, disk in self._world.disks.items():
            disk.heal()
            host.process.end_stall()
        self._world.network.tear_walls()

    def had_disk_trouble(self, host: Host, since_s: float) -> bool:
        disk = self._world.disks[host]
        return disk.has_trouble or disk.slow_ms is not None or self._healed_s.get(host, since_s - 1) >= since_s

    def _for_a_while(self, end: Callable[[], object], times: float = 1) -> None:
        """Call ``end`` after a time that is drawn: mostly short, sometimes longer than every limit of the protocol. ``times`` as long as
        others."""
        number = next(self._numbers)
        self._ends[number] = end
        rng, most_ms = self._rng, self._weather.lasts_ms
        is_long = rng.random() < 0.2
        length_ms = times * (rng.uniform(0, most_ms) if is_long else min(most_ms, rng.expovariate(6 / most_ms)))
        self._world.loop.call_later(length_ms / 1000, lambda: self._ends.pop(number, lambda: None)())

    def _host(self) -> Host:
        return self._rng.choice(self._world.network.hosts)

    def _reset(self) -> None:
        if self._world.network.reset_some_connection(self._rng):
            self._world.note("a connection is reset")

    def _forget_connection(self) -> None:
        if self._world.network.forget_some_connection(self._rng):
            self._world.note("a connection is half-open")

    def _narrow_link(self) -> None:
        host = self._host()
        host.bytes_per_s = self._rng.choice([500.0, 5_000.0, 50_000.0])
        self._world.note(f"{host} sends {host.bytes_per_s:.0f} bytes a second")
        self._for_a_while(partial(setattr, host, "bytes_per_s", None))

    def _deafen(self) -> None:
        host = self._host()
        process = host.process
        process.is_deaf = True
        self._world.note(f"{host} reads nothing")

        def hear() -> None:
            process.is_deaf = False
            self._world.note(f"{host} reads again")

        self._for_a_while(hear)

    def _refuse(self) -> None:
        host = self._host()
        host.refuses = True
        self._world.note(f"{host} refuses connections")
        self._for_a_while(partial(setattr, host, "refuses", False))

    def _move(self) -> None:
        host = self._rng.choice([self._world.namesrv, *self._world.brokers])
        if not host.process.is_dead:
            self._world.kill(host)
            self._world.network.move(host)
            self._world.note(f"{host} moves to {host.address}")
            self._restart_later(host)

    def _build_wall(self) -> None:
        network = self._world.network
        one = self._rng.choice([self._world.namesrv, *self._world.brokers])  # users do not speak to each other
        other = self._rng.choice([host for host in network.hosts if host is not one])
        if self._rng.random() < 0.5:
            one, other = other, one
        both = self._rng.random() < 0.5
        self._world.note(f"a wall from {one} to {other}" + (" and back" if both else ""))
        network.build_wall(one, other)
        if both:
            network.build_wall(other, one)

        def tear() -> None:
            network.tear_wall(one, other)
            network.tear_wall(other, one)
            self._world.note(f"no wall between {one} and {other}")

        self._for_a_while(tear)

    def _freeze(self) -> None:
        host = self._host()
        process = host.process
        if process.is_running:
            self._world.note(f"{host} is frozen")
            process.freeze()
            self._for_a_while(partial(self._thaw, process))

    def _thaw(self, process: Process) -> None:
        if not process.is_dead:
            self._world.note(f"{process.host} goes on")
            process.thaw()

    def _kill(self) -> None:
        host = self._host()
        disk = self._world.disks.get(host)
        if disk is not None and self._rng.random() < 0.5:
            disk.is_killed_in = self._rng.randint(1, 40)
            self._rngs[host] = self._rng
        else:
            self._end(host, "is killed")

    def _cut_power(self) -> None:
        host = self._host() if self._rng.random() < 0.5 else self._disk()[0]  # those that have something to lose
        disk = self._world.disks.get(host)
        if disk is not None and self._rng.random() < 0.5:
            self._cut_power_at(host, disk, 12)
        else:
            self._end(host, "has no power", power=True)

    def _end(self, host: Host, what: str, *, power: bool = False) -> None:
        if not host.process.is_dead:
            self._world.note(f"{host} {what}")
            self._world.kill(host, power=power)
            self._restart_later(host)

    def _cut_power_at(self, host: Host, disk: HostDisk, most_syncs: int) -> None:
        syncs, self._rngs[host] = self._rng.randint(1, most_syncs), self._rng
        if "errors" in self.kinds and self._rng.random() < 0.5:
            disk.fails_in = syncs
            self._for_a_while(partial(setattr, disk, "fails_in", None))
        else:
            disk.power_goes_at_changes = self._rng.random() < 0.4
            disk.power_goes_in = syncs * 3 if disk.power_goes_at_changes else syncs

    def process_ended(self, host: Host) -> None:
        """At its disk."""
        if self._is_clear:
            self._world.restart(host)
        else:
            self._rng = self._rngs.pop(host, self._rng)
            self._restart_later(host)

    def _restart_later(self, host: Host) -> None:
        self._for_a_while(partial(self._restart, host, self._rng))

    def _restart(self, host: Host, rng: random.Random) -> None:
        """Perhaps not for long: a start that ends midway, or soon after, leaves what none has seen. Perhaps with another time of day."""
        disk, again = self._world.disks.get(host), [kind for kind in ("kills", "power") if kind in self.kinds]
        if disk is not None and not self._is_clear:
            if "clocks" in self.kinds and rng.random() < 0.5:
                self._set_clock_by(host, rng.choice(_DAYS_MS))
            if again and rng.random() < 0.3:
                self._rng = self._rngs[host] = rng
                if rng.choice(again) == "kills":
                    disk.is_killed_in = rng.randint(1, 60)
                else:
                    self._cut_power_at(host, disk, 24)
        self._world.restart(host)

    def _disk(self) -> tuple[Host, HostDisk]:
        return self._rng.choice(list(self._world.disks.items()))

    def _trouble_disk(self, host: Host, what: str, name: str, healthy: object) -> None:
        """Until ``name`` is as on a ``healthy`` disk again."""
        self._world.note(f"the disk of {host} {what}")

        def heal() -> None:
            setattr(self._world.disks[host], name, healthy)
            if name == "slow_ms":
                host.process.end_stall()
            self._healed_s[host] = self._world.loop.time()
            self._world.note(f"the disk of {host} is well again")

        self._for_a_while(heal)

    def _fill_disk(self) -> None:
        host, disk = self._disk()
        disk.free_bytes = self._rng.choice([0, 1_000, 20_000])
        self._trouble_disk(host, f"has {disk.free_bytes} bytes left", "free_bytes", None)

    def _break_disk(self) -> None:
        host, disk = self._disk()
        disk.error_rate = self._rng.choice([0.02, 0.1, 1.0])
        self._trouble_disk(host, f"fails at {disk.error_rate:.0%} of all calls", "error_rate", 0.0)

    def _slow_disk(self) -> None:
        host, disk = self._disk()
        disk.slow_ms = self._rng.choice([50, 500, 5_000])
        self._trouble_disk(host, f"takes {disk.slow_ms:.0f} ms", "slow_ms", None)

    def _shorten_writes(self) -> None:
        host, disk = self._disk()
        disk.writes_short = True
        self._trouble_disk(host, "writes parts", "writes_short", False)

    def _set_clock(self) -> None:
        host = self._host()
        by_ms = self._rng.choice([-1, 1]) * self._rng.expovariate(1 / self._rng.choice([5_000, 5_000, 60_000]))
        if host in self._world.disks and self._rng.random() < 0.1:  # by days, by mistake
            by_ms = self._rng.choice(_DAYS_MS)
        self._set_clock_by(host, by_ms)

    def _set_clock_by(self, host: Host, by_ms: float) -> None:
        self._world.note(f"the clock of {host} is set by {by_ms:.0f} ms")
        host.skew_ms += by_ms

    def _let_clock_drift(self) -> None:
        host, rate = self._host(), self._rng.choice([0.98, 1.05, 0.0])
        host.clock.drift(rate)
        self._world.note(f"the clock of {host} goes {rate} times as fast")
        self._for_a_while(lambda: host.clock.drift(1.0), 1 if rate == 0 else 20)
