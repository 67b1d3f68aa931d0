# SPDX-License-Identifier: Apache-2.0
"""Hosts, their processes, and the connections between them, as TCP behaves: bytes arrive in order, late, in other pieces, or never.

    write --> [send buffer] --> link (delay, bandwidth, a wall) --> [receive buffer] --> data_received
                   `- pause_writing above its mark                       `- fills while the peer does not read

A wall between two hosts holds what is sent until it is taken away, as TCP sends lost packets again. A connection that a firewall has
forgotten is half-open for ever: its kernels give it up when nothing was answered for so long. The kernel of a process that is killed
resets its connections. From a host without power nobody hears anything; once it is on again, it resets what it does not know.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import hashlib
import itertools
import math
import random
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, cast

from sprocketmq.testing.simulation.clock import HostClock
from sprocketmq.testing.simulation.draws import Draws
from sprocketmq.testing.simulation.loop import SimulatedLoop, current_process
from sprocketmq.wire.frames.command import FLAG_ONEWAY, FLAG_RESPONSE

_WINDOW_BYTES: Final = 128 * 1024  # of one direction: under way, or in the receive buffer
_FIRST_PORT: Final = 40_000
_DELAY_MS: Final = (0.05, 0.5)
_SPIKE_MS: Final = 400.0
_BYTES_PER_S: Final = 100e6
_PIECE_BYTES: Final = 64 * 1024  # the most that arrives at once
_SYN_AGAIN_S: Final = 1.0
_GIVEN_UP_S: Final = 924.6  # Linux: tcp_retries2
_FLAG: Final = re.compile(rb'"flag":(\d+)')
_OPAQUE: Final = re.compile(rb'"opaque":(-?\d+)')
_SLICES_EACH_S: Final = 4  # into which a narrow link cuts what is sent


class Process:
    """One life of a host's program. Its callbacks run while it runs, and never again when it is dead."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.is_running = True
        self.is_dead = False
        self._is_deaf, self._deaf_until_s = False, -math.inf
        self._postponed: list[asyncio.Handle] = []
        self._freezes: list[list[float]] = []  # began, ended
        self._stalled_until_s = 0.0
        self.context = contextvars.copy_context()
        self.context.run(current_process.set, self)

    def postpone(self, handle: asyncio.Handle) -> None:
        if not self.is_dead:
            self._postponed.append(handle)

    def freeze(self) -> None:
        """As SIGSTOP: its kernel still takes bytes and connections."""
        if self.is_running:
            self._freezes.append([self.host.network.loop.time(), math.inf])
        self.is_running = False

    def stall(self, ms: float) -> None:
        """Stand still for a while after this callback: the system did not come back from a call."""
        loop = self.host.network.loop
        self._stalled_until_s = ends_s = max(self._stalled_until_s, loop.time()) + ms / 1000
        self.freeze()
        loop.call_at(ends_s, lambda: self.thaw() if ends_s == self._stalled_until_s else None, context=_KERNEL)

    @property
    def is_deaf(self) -> bool:
        """It reads nothing from its connections, and goes on otherwise."""
        return self._is_deaf

    @is_deaf.setter
    def is_deaf(self, is_deaf: bool) -> None:
        if self._is_deaf:
            self._deaf_until_s = self.host.network.loop.time()
        self._is_deaf = is_deaf
        for end in self.host.ends:
            end.look()

    def end_stall(self) -> None:
        """The system is as quick as ever again: what it was asked for meanwhile is done."""
        if not self.is_running and self._stalled_until_s > self.host.network.loop.time():
            self._stalled_until_s = 0.0
            self.thaw()

    def frozen_ms_since(self, since_s: float) -> float:
        now_s = self.host.network.loop.time()
        return sum(max(0.0, min(end, now_s) - max(begin, since_s)) for begin, end in self._freezes) * 1000

    def was_deaf_since(self, since_s: float) -> bool:
        return self._is_deaf or self._deaf_until_s >= since_s

    def went_on_since(self, since_s: float) -> bool:
        """Whether it has stood still or read nothing, and does so no longer."""
        return self._deaf_until_s >= since_s or any(since_s <= end < math.inf for _, end in self._freezes)

    def end(self) -> None:
        self.thaw()
        self.is_running, self.is_dead = False, True

    def thaw(self) -> None:
        if not self.is_running and not self.is_dead:
            self._freezes[-1][1] = self.host.network.loop.time()
            self.is_running = True
        self.host.network.loop.again(self._postponed)
        self._postponed.clear()


class Host:
    def __init__(self, name: str, address: str, network: Network) -> None:
        self.name, self.address, self.network = name, address, network
        self.is_off = False
        self.refuses = False  # new connections
        self.bytes_per_s: float | None = None  # of all that it sends; None: as the network's weather says
        self.link_free_s = 0.0
        self.skew_ms = 0.0  # of its clock
        self.rng = network.draws.stream(name)
        self.clock = HostClock(self)
        self.ends: dict[SimulatedTransport, None] = {}  # open connections, in the order of their opening
        self.process = Process(self)

    def __repr__(self) -> str:
        return self.name

    def end(self, *, power: bool = False) -> None:
        """End the process as ``kill -9`` does: its kernel resets all connections. ``power``: nobody knows."""
        self.process.end()
        self.network.close_ports(self)
        self.is_off = self.is_off or power
        for end in list(self.ends):
            if not power:
                end.reset_peer()
            end.vanish()

    def start_process(self) -> Process:
        """A new process; the host is on afterwards."""
        self.is_off = False
        self.process = Process(self)
        return self.process


class Network:
    """``spikes``: the share of pieces that take up to 400 ms."""

    def __init__(self, loop: SimulatedLoop, draws: Draws) -> None:
        self.loop, self.draws = loop, draws
        loop.network = self
        self.spikes = 0.0
        self._trace = hashlib.sha256()
        self.sent: Counter[tuple[Host, Host]] = Counter()  # writes and attempts to connect, from one to another
        self.unlike = b""  # a text of this run that another process has not: the path of its files
        self.hosts: list[Host] = []
        self._addresses = itertools.count(1)
        self._walled_s: dict[Host, float] = {}  # when a wall around a host was torn down last
        self._forgotten_s: defaultdict[tuple[Host, Host], list[float]] = defaultdict(list)
        self.servers: dict[tuple[str, int], SimulatedServer] = {}
        self._ports = itertools.count(_FIRST_PORT)
        self._walls: dict[tuple[Host, Host], list[Callable[[], object]]] = {}  # with what waits for its end

    def add_host(self, name: str) -> Host:
        self.hosts.append(host := Host(name, self._new_address(), self))
        return host

    def _new_address(self) -> str:
        number = next(self._addresses)
        return f"10.0.{number >> 8}.{number & 255}"

    def move(self, host: Host) -> None:
        """Its name leads to another address from now on; nobody is at the old one. Its process is dead."""
        host.address = self._new_address()

    def _host_at(self, where: str) -> Host | None:
        """``where``: its address, or its name."""
        return next((host for host in self.hosts if where in (host.address, host.name)), None)

    def trace(self, what: bytes) -> None:
        """Something has happened: what is sent, and each line of the story."""
        self._trace.update(b"%r %b" % (self.loop.time(), what.replace(self.unlike, b"")))

    @property
    def digest(self) -> str:
        return self._trace.hexdigest()[:16]

    # -- weather ---------------------------------------------------------------------------------------------------------------

    def build_wall(self, sender: Host, receiver: Host) -> None:
        """Let nothing through in this direction."""
        self._walls.setdefault((sender, receiver), [])

    def tear_wall(self, sender: Host, receiver: Host) -> None:
        if (sender, receiver) in self._walls:
            self._walled_s |= dict.fromkeys((sender, receiver), self.loop.time())
        for call in self._walls.pop((sender, receiver), ()):
            call()

    def was_walled(self, host: Host, since_s: float) -> bool:
        """Whether there was a wall between it and another one."""
        return self.wall_fell_since(host, since_s) or any(host in wall for wall in self._walls)

    def wall_fell_since(self, host: Host, since_s: float) -> bool:
        return self._walled_s.get(host, since_s - 1) >= since_s

    def tear_walls(self) -> None:
        for sender, receiver in list(self._walls):
            self.tear_wall(sender, receiver)

    def after_wall(self, sender: Host, receiver: Host, call: Callable[[], object]) -> bool:
        """True: there is a wall, and ``call`` is called when it is gone."""
        waiting = self._walls.get((sender, receiver))
        if waiting is not None:
            waiting.append(call)
        return waiting is not None

    def delay_s(self, sender: Host) -> float:
        rng = sender.rng
        is_spike = self.spikes and rng.random() < self.spikes
        return rng.uniform(*((_DELAY_MS[1], _SPIKE_MS) if is_spike else _DELAY_MS)) / 1000

    def reset_some_connection(self, rng: random.Random) -> bool:
        """Reset a connection that is drawn, at both ends. False: there is none."""
        end = self._some_end(rng)
        if end is not None:
            end.reset_from_peer()
            end.peer.reset_from_peer()
        return end is not None

    def forget_some_connection(self, rng: random.Random) -> bool:
        """Let nothing through in a connection that is drawn, for ever. False: there is none."""
        end = self._some_end(rng)
        if end is not None and not end.is_forgotten:
            end.is_forgotten = end.peer.is_forgotten = True
            self._forgotten_s[end.process.host, end.peer.process.host].append(self.loop.time())
        return end is not None

    def times_forgotten(self, one: Host, other: Host, since_s: float) -> int:
        """How many of their connections."""
        moments = self._forgotten_s[one, other] + self._forgotten_s[other, one]
        return sum(moment >= since_s for moment in moments)

    def _some_end(self, rng: random.Random) -> SimulatedTransport | None:
        ends = [end for host in self.hosts for end in host.ends]
        return rng.choice(ends) if ends else None

    # -- listening and connecting ------------------------------------------------------------------------------------------------

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], port: int) -> SimulatedServer:
        process = current_process.get()
        assert process is not None, "a server is started outside of any process"
        at = (process.host.address, port or next(self._ports))
        if at in self.servers:
            raise OSError(errno.EADDRINUSE, "address in use")
        server = self.servers[at] = SimulatedServer(self, process, at, factory)
        return server

    def close_ports(self, host: Host) -> None:
        for at in [at for at in self.servers if at[0] == host.address]:
            del self.servers[at]

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], address: str, port: int
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """From a host that is off or behind a wall there is no answer; the caller's own limit ends the wait. ``address``: or name."""
        process, there = current_process.get(), self._host_at(address)
        assert process is not None, "a connection is opened outside of any process"
        if there is None:
            raise OSError(errno.EHOSTUNREACH, f"no route to {address}")
        here, address = process.host, there.address
        self.sent[here, there] += 1
        await asyncio.sleep(self.delay_s(here))
        while there.is_off or (here, there) in self._walls or (there, here) in self._walls:  # noqa: ASYNC110 - as a kernel does
            await asyncio.sleep(_SYN_AGAIN_S)
        server = self.servers.get((address, port))
        await asyncio.sleep(self.delay_s(here))
        if server is None or there.refuses or self.servers.get((address, port)) is not server:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        ours = SimulatedTransport(self, process, (here.address, next(self._ports)))
        theirs = SimulatedTransport(self, server.process, (address, port))
        ours.peer, theirs.peer = theirs, ours
        protocol = factory()
        ours.begin(protocol)
        theirs.call(lambda: theirs.begin(server.factory()))
        return ours, protocol


class SimulatedServer:
    """A listening socket. Its host's kernel accepts, also while the process is frozen."""

    def __init__(
        self, network: Network, process: Process, at: tuple[str, int], factory: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._network, self.process, self.at, self.factory = network, process, at, factory
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        return self.at

    def fileno(self) -> int:
        return -1  # as of a closed socket: a fork has nothing to give up

    def close(self) -> None:
        if self._network.servers.get(self.at) is self:
            del self._network.servers[self.at]

    async def wait_closed(self) -> None:
        pass


def _headers(begun: bytearray, data: bytes) -> Iterator[tuple[int, int]]:
    """Flag and opaque of each frame that ``data`` ends."""
    begun += data
    while len(begun) >= 8 and len(begun) >= (end := 4 + int.from_bytes(begun[:4], "big")):
        flag, opaque = _FLAG.search(begun, 8, end), _OPAQUE.search(begun, 8, end)
        if flag is not None and opaque is not None:
            yield int(flag[1]), int(opaque[1])
        del begun[:end]


class SimulatedTransport(asyncio.Transport):
    """One end of a connection. What belongs to the kernel (buffers, arrivals) happens whatever its process does."""

    peer: SimulatedTransport

    def __init__(self, network: Network, process: Process, at: tuple[str, int]) -> None:
        super().__init__()
        self._network, self._loop, self.process, self.at = network, network.loop, process, at
        self._protocol: asyncio.Protocol | None = None
        self._out: deque[bytes] = deque()
        self._out_bytes = self._under_way_bytes = 0
        self._in: deque[bytes] = deque()
        self._arrives_s = 0.0  # when the last piece arrives, which none overtakes
        self._high_bytes, self._low_bytes = 64 * 1024, 16 * 1024
        self.is_forgotten = False  # what it sends goes nowhere
        self.unanswered_s: dict[int, float] = {}  # when requests were read, by their opaques
        self._begun_in, self._begun_out = bytearray(), bytearray()  # frames that are not whole
        self._is_paused = False  # its protocol was told to pause writing
        self._reads = True
        self._closing = self._gone = self._ends_after_out = self._eof_arrived = False
        process.host.ends[self] = None

    # -- asyncio.Transport -----------------------------------------------------------------------------------------------------

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        if not self._gone:
            self._protocol = cast("asyncio.Protocol", protocol)
            self._protocol.connection_made(self)
            self._deliver()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.peer.at, "sockname": self.at}.get(name, default)

    def write(self, data: Any) -> None:
        if not data or self._gone or self._closing:
            return
        data = bytes(data)
        self._network.trace(data)
        for flag, opaque in _headers(self._begun_out, data):
            if flag & FLAG_RESPONSE:
                self.unanswered_s.pop(opaque, None)
        self._network.sent[self.process.host, self.peer.process.host] += 1
        self._out.append(data)
        self._out_bytes += len(data)
        self._pump()
        self._pause_if_full()

    def get_write_buffer_size(self) -> int:
        return self._out_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = 64 * 1024 if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low
        self._pause_if_full()

    def _pause_if_full(self) -> None:
        if self._out_bytes > self._high_bytes and not self._is_paused and self._protocol is not None:
            self._is_paused = True
            self._protocol.pause_writing()

    @property
    def owes_answers(self) -> bool:
        """Whether it may take requests and write."""
        return self._reads and not self._is_paused and not self._closing

    def is_reading(self) -> bool:
        return self._reads and not self._closing

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self.look()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = self._ends_after_out = True
            self._pump()

    def abort(self) -> None:
        if not self._gone:
            self.reset_peer()
            self.fail(None)

    # -- the kernel ------------------------------------------------------------------------------------------------------------

    def call(self, callback: Callable[[], object]) -> None:
        """In the context of its process, soon."""
        self._loop.call_soon(callback, context=self.process.context)

    def look(self) -> None:
        """Read what has arrived."""
        self.call(self._deliver)

    def _delay_s(self) -> float:
        return self._network.delay_s(self.process.host)

    def _pump(self) -> None:
        """Give to the link what the window has room for."""
        host, now_s = self.process.host, self._loop.time()
        rng, bytes_per_s = host.rng, host.bytes_per_s
        while self._out and self._under_way_bytes < _WINDOW_BYTES:
            piece = self._out.popleft()
            most = min(_PIECE_BYTES, _WINDOW_BYTES - self._under_way_bytes)
            if bytes_per_s is not None:
                most = max(1, min(most, int(bytes_per_s / _SLICES_EACH_S)))
            most = rng.randint(1, most) if len(piece) > 1 and rng.random() < 0.05 else most
            if len(piece) > most:
                self._out.appendleft(piece[most:])
                piece = piece[:most]
            self._out_bytes -= len(piece)
            self._under_way_bytes += len(piece)
            if bytes_per_s is None:
                takes_s = len(piece) / _BYTES_PER_S
            else:  # after what its host's other connections have sent
                host.link_free_s = max(now_s, host.link_free_s) + len(piece) / bytes_per_s
                takes_s = host.link_free_s - now_s
            self._send_at(self._delay_s() + takes_s, partial(self.peer.arrive, piece))
        if self._ends_after_out and not self._out:
            self._ends_after_out = False
            self._send_at(self._delay_s(), self.peer.end_arrives)
            if self._closing:
                self._lose(None)

    def _send_at(self, delay_s: float, arrive: Callable[[], object]) -> None:
        self._arrives_s = max(self._arrives_s, self._loop.time() + delay_s)
        self._loop.call_at(self._arrives_s, self._through_wall, arrive, context=_KERNEL)

    def _through_wall(self, arrive: Callable[[], object]) -> None:
        if self.is_forgotten:
            error = TimeoutError(errno.ETIMEDOUT, "connection timed out")
            self._loop.call_later(_GIVEN_UP_S, self.fail, error, context=_KERNEL)
        elif not self._network.after_wall(self.process.host, self.peer.process.host, arrive):
            arrive()

    def arrive(self, piece: bytes) -> None:
        if self._gone:
            if not self.process.host.is_off:  # a kernel answers bytes for a connection that it does not know
                self.peer.reset_from_peer()
            return
        self._in.append(piece)
        self.look()

    def _deliver(self) -> None:
        while (
            self._in and self._reads and not self.process.is_deaf and self._protocol is not None and not self._closing
        ):
            piece = self._in.popleft()
            self.peer._acknowledged(len(piece))
            for flag, opaque in _headers(self._begun_in, piece):
                if not flag & (FLAG_RESPONSE | FLAG_ONEWAY):
                    self.unanswered_s[opaque] = self._loop.time()
            self._protocol.data_received(piece)
        if self._eof_arrived and not self._in and self._protocol is not None and not self._closing:
            self._eof_arrived = False
            if not self._protocol.eof_received():
                self.close()

    def _acknowledged(self, count: int) -> None:
        self._under_way_bytes -= count
        self._pump()
        if self._is_paused and self._out_bytes <= self._low_bytes:
            self._is_paused = False
            self.call(self._resume_protocol)

    def _resume_protocol(self) -> None:
        if self._protocol is not None and not self._gone:
            self._protocol.resume_writing()

    def end_arrives(self) -> None:
        self._eof_arrived = True
        self.look()

    def reset_from_peer(self) -> None:
        self.fail(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def reset_peer(self) -> None:
        self._send_at(self._delay_s(), self.peer.reset_from_peer)

    def vanish(self) -> None:
        """Its process has ended."""
        self._closing = self._gone = True
        self._out.clear()
        self._out_bytes = 0
        self._in.clear()
        self.process.host.ends.pop(self, None)

    def fail(self, error: Exception | None) -> None:
        if not self._gone:
            self._closing = True
            self._out.clear()
            self._out_bytes = 0
            self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        self._gone = True
        self.process.host.ends.pop(self, None)
        self.call(lambda: None if self._protocol is None else self._protocol.connection_lost(error))


_KERNEL: Final = contextvars.Context()  # of no process
