# SPDX-License-Identifier: Apache-2.0
"""The disk and the threads under ``sprocketmq.testing.simulation``, without a store."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import os
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sprocketmq.testing.simulation.disk import HostDisk, _Os
from sprocketmq.testing.simulation.draws import Draws
from sprocketmq.testing.simulation.loop import SimulatedLoop, SimulationError
from sprocketmq.testing.simulation.network import Host, Network
from sprocketmq.testing.simulation.power_disk import PowerDisk
from sprocketmq.testing.simulation.threads import SimulatedCondition, SimulatedExecutor, SimulatedLock, Threads
from sprocketmq.threads import submit


class Machine:
    def __init__(self, root: Path) -> None:
        self.loop = SimulatedLoop()
        self.threads = Threads(self.loop, random.Random(1))
        self.host: Host = Network(self.loop, Draws(2)).add_host("here")
        self.disk = HostDisk(root, self.threads, random.Random(3))
        self.disk.when_power_goes = self.lose_power
        self.disk.when_killed = self.host.end
        self.os = _Os(lambda: self.disk)

    def lose_power(self) -> None:
        self.disk.cut_power()
        self.host.end(power=True)

    def kill(self) -> None:
        process = self.host.process
        self.host.end()
        self.threads.kill(process)

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loop.run_until_complete(self.loop.create_task(work(), context=self.host.process.context.copy()))

    def in_host(self, call: Callable[[], Any]) -> Any:
        return self.host.process.context.copy().run(call)

    def write(self, name: str, data: bytes, *, syncs: bool = True) -> None:
        """In one call, and its name is on the disk."""
        fd = self.os.open(str(self.disk.path / name), os.O_RDWR | os.O_CREAT)
        try:
            assert self.os.write(fd, data) == len(data)
            if syncs:
                self.os.fsync(fd)
        finally:
            os.close(fd)
        folder = os.open(self.disk.path, os.O_RDONLY)
        self.os.fsync(folder)
        os.close(folder)

    def read(self, name: str) -> bytes:
        return (self.disk.path / name).read_bytes()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.threads.close()
    machine.loop.close()
    machine.disk.close()


def test_a_power_cut_keeps_what_was_synced_and_any_part_of_the_rest(machine: Machine) -> None:
    found = set()
    for boot in range(30):
        machine.in_host(lambda: machine.write("synced", b"a" * 5_000))
        machine.in_host(lambda: machine.write("not", b"b" * 5_000, syncs=False))
        machine.disk.cut_power()
        assert machine.disk.boots == boot + 1
        assert machine.read("synced") == b"a" * 5_000
        found.add(machine.read("not").count(b"b"))
        (machine.disk.path / "not").unlink()
    assert {0, 5_000} < found


def test_a_folder_whose_name_was_synced_and_which_is_gone_is_back_as_a_folder_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    disk = PowerDisk(tmp_path / "disk")
    (tmp_path / "disk/queue").mkdir()
    fd = os.open(tmp_path / "disk", os.O_RDONLY)
    disk.sync(fd)
    os.close(fd)
    (tmp_path / "disk/queue").rmdir()
    cuts = [tmp_path / f"cut-{number}" for number in range(20)]
    for number, cut in enumerate(cuts):
        disk.cut(cut, random.Random(number))
    disk.close()
    found = {(cut / "queue").is_dir() for cut in cuts if (cut / "queue").exists()}
    assert found == {True}


def test_a_thread_stands_in_a_slow_sync_while_time_passes_and_a_kill_ends_it_there(machine: Machine) -> None:
    steps: list[object] = []

    def flush() -> None:
        machine.write("log", b"1")
        steps.append(machine.loop.time())
        machine.disk.slow_ms = 5_000
        machine.write("log", b"2")
        steps.append("never")

    async def work() -> None:
        machine.in_host(lambda: machine.threads.start(flush))
        await asyncio.sleep(1)
        assert len(steps) == 1
        machine.kill()
        await asyncio.sleep(60)

    machine.loop.run_until_complete(work())
    assert len(steps) == 1


def test_a_sync_that_ends_later_takes_back_nothing_that_another_has_kept(machine: Machine) -> None:
    """Both of a folder, and of a file: threads write several files of one folder."""
    (machine.disk.path / "log").touch()

    def sync(name: str, slow_ms: float) -> None:
        machine.disk.slow_ms = slow_ms
        fd = os.open(machine.disk.path / name, os.O_RDONLY)
        machine.os.fsync(fd)
        os.close(fd)

    async def work() -> None:
        slow = [machine.threads.start(lambda name=name: sync(name, 5_000), 0) for name in (".", "log")]
        await asyncio.sleep(0.001)
        (machine.disk.path / "new").touch()
        (machine.disk.path / "log").write_bytes(b"1")
        quick = [machine.threads.start(lambda name=name: sync(name, 0.1), 0) for name in (".", "log")]
        await asyncio.wait([asyncio.wrap_future(thread.ended) for thread in quick])
        assert not any(thread.ended.done() for thread in slow)
        await asyncio.wait([asyncio.wrap_future(thread.ended) for thread in slow])

    machine.run(work)
    machine.disk.cut_power()
    assert machine.read("new") == b""
    assert machine.read("log") == b"1"


def test_the_loops_thread_stands_still_after_a_slow_sync(machine: Machine) -> None:
    machine.disk.slow_ms = 5_000

    async def work() -> float:
        machine.write("log", b"1")
        await asyncio.sleep(0)
        return machine.loop.time()

    assert machine.run(work) > 0.1


def test_what_a_slow_disk_still_has_to_do_is_quick_when_it_is_well_again(machine: Machine) -> None:
    """All calls of a start come at one moment of the virtual time, and their sum may be minutes."""
    machine.disk.slow_ms = 5_000

    async def work() -> float:
        for _ in range(50):
            machine.write("log", b"1")
        machine.loop.call_later(10, machine.host.process.end_stall, context=contextvars.Context())
        await asyncio.sleep(0)
        return machine.loop.time()

    assert machine.run(work) == 10


def test_a_full_disk_takes_a_part_and_then_nothing_but_what_has_its_space(machine: Machine) -> None:
    machine.in_host(lambda: machine.write("log", b"a" * 8_192))
    machine.disk.free_bytes = 1_000
    fd = os.open(machine.disk.path / "log", os.O_RDWR)
    assert machine.os.write(fd, b"b" * 8_192) == 8_192
    assert machine.os.write(fd, b"c" * 8_192) == 1_000
    with pytest.raises(OSError, match="No space"):
        machine.os.write(fd, b"d")
    os.close(fd)
    with pytest.raises(OSError, match="No space"):
        machine.os.open(str(machine.disk.path / "new"), os.O_RDWR | os.O_CREAT)
    machine.disk.heal()
    machine.write("new", b"1")


def test_what_a_failed_sync_did_not_write_a_second_sync_does_not_write_either(machine: Machine) -> None:
    lost = 0
    for _ in range(20):
        machine.disk.error_rate = 0.0
        fd = os.open(machine.disk.path / "log", os.O_RDWR | os.O_CREAT)
        os.write(fd, os.urandom(1) * 4_096)
        content = machine.read("log")
        machine.disk.error_rate = 1.0
        with pytest.raises(OSError, match="Input/output") as failed:
            machine.os.fsync(fd)
        assert failed.value.errno == errno.EIO
        machine.disk.error_rate = 0.0
        machine.write("other", b"")  # keeps the names
        machine.os.fsync(fd)
        os.close(fd)
        machine.disk.cut_power()
        lost += machine.read("log") != content
    assert 0 < lost < 20


def test_a_text_that_is_written_anew_after_a_failed_sync_is_written_by_the_next_one(machine: Machine) -> None:
    """The pages that the kernel has dropped went with the file's old content."""
    for _ in range(20):
        for rate in (1.0, 0.0):
            machine.disk.error_rate = 0.0
            with machine.os.open_file(machine.disk.path / "text.tmp", "wb") as file:
                file.write(b"t" * 409_600)
                file.flush()
                machine.disk.error_rate = rate
                with contextlib.suppress(OSError):
                    machine.os.fsync(file.fileno())
        machine.write("other", b"")  # keeps the names
        machine.disk.cut_power()
        assert machine.read("text.tmp") == b"t" * 409_600


def test_the_power_goes_in_front_of_a_sync_and_nothing_has_an_effect_from_there_on(machine: Machine) -> None:
    def work() -> None:
        machine.write("log", b"1")
        machine.disk.power_goes_in = 1
        with pytest.raises(OSError, match="dead"):
            machine.write("log", b"2")
        with pytest.raises(OSError, match="dead"):
            machine.os.unlink(str(machine.disk.path / "log"))

    machine.in_host(work)
    assert machine.host.process.is_dead
    assert machine.read("log") in (b"1", b"2")


def test_a_process_is_killed_in_front_of_a_change_and_what_it_has_written_stays(machine: Machine) -> None:
    def work() -> None:
        machine.disk.is_killed_in = 2
        fd = machine.os.open(str(machine.disk.path / "log"), os.O_RDWR | os.O_CREAT)
        with pytest.raises(OSError, match="dead"):
            machine.os.write(fd, b"1")
        os.close(fd)

    machine.in_host(work)
    assert machine.host.process.is_dead
    assert machine.read("log") == b""


def test_a_process_is_killed_in_front_of_a_sync(machine: Machine) -> None:
    def work() -> None:
        machine.disk.is_killed_in = 3
        with pytest.raises(OSError, match="dead"):
            machine.write("log", b"1")

    machine.in_host(work)
    assert machine.host.process.is_dead
    assert machine.read("log") == b"1"


def test_the_power_goes_in_front_of_a_change(machine: Machine) -> None:
    def work() -> None:
        machine.disk.power_goes_in, machine.disk.power_goes_at_changes = 3, True
        machine.write("log", b"1")
        with pytest.raises(OSError, match="dead"):
            machine.write("log", b"2")

    machine.in_host(work)
    assert machine.disk.boots == 1
    assert machine.read("log") == b"1"


def test_a_sync_of_a_file_fails_and_the_power_goes_soon_after(machine: Machine) -> None:
    def work() -> None:
        machine.disk.fails_in = 2
        machine.write("log", b"1")
        assert machine.disk.has_trouble
        with pytest.raises(OSError, match="Input/output"):
            machine.write("log", b"2")
        assert machine.disk.power_goes_in is not None
        machine.disk.power_goes_in = 1
        with pytest.raises(OSError, match="dead"):
            machine.write("other", b"1")

    machine.in_host(work)
    assert machine.disk.boots == 1
    assert not machine.disk.has_trouble


def test_writes_may_be_short(machine: Machine) -> None:
    machine.disk.writes_short = True
    fd = os.open(machine.disk.path / "log", os.O_RDWR | os.O_CREAT)
    assert {machine.os.write(fd, b"abc") for _ in range(100)} == {1, 2, 3}
    os.close(fd)
    with machine.os.open_file(machine.disk.path / "text", "w", encoding="utf-8") as file:
        file.write("long " * 1_000)
    assert machine.read("text") == b"long " * 1_000


def test_a_lock_is_held_by_one_thread_and_the_loop_waits_until_it_is_free(machine: Machine) -> None:
    lock, steps = SimulatedLock(machine.threads), list[str]()

    def hold(name: str) -> None:
        with lock:
            steps.append(f"{name} begins")
            machine.threads.pause(1_000)
            steps.append(f"{name} ends")

    async def work() -> None:
        machine.threads.start(lambda: hold("a"))
        machine.threads.start(lambda: hold("b"))
        await asyncio.sleep(0.5)
        with lock:
            steps.append("loop")

    machine.run(work)
    assert steps[2] == "loop" or steps[4] == "loop"
    steps.remove("loop")
    assert [step.split()[1] for step in steps] == ["begins", "ends"] * (len(steps) // 2)


def test_a_condition_wakes_at_its_limit_or_when_it_is_notified(machine: Machine) -> None:
    condition, woken = SimulatedCondition(machine.threads), list[tuple[bool, float]]()

    def wait() -> None:
        for _ in range(2):
            with condition:
                told = condition.wait(10)
            woken.append((told, round(machine.loop.time())))

    async def work() -> None:
        machine.threads.start(wait)
        await asyncio.sleep(15)
        with condition:
            condition.notify()
        await asyncio.sleep(1)

    machine.run(work)
    assert woken == [(False, 10), (True, 15)]


def test_a_wait_that_no_thread_can_end_is_an_error(machine: Machine) -> None:
    async def work() -> None:
        lock = SimulatedLock(machine.threads)
        lock.acquire()
        lock.acquire()

    with pytest.raises(SimulationError, match="no thread"):
        machine.run(work)


def test_who_waits_for_work_that_a_dead_process_has_not_begun_is_told(machine: Machine) -> None:
    executor, futures, done = SimulatedExecutor(machine.threads, 1), list[Future[None]](), list[int]()

    def hand_over() -> None:
        for call in (executor.submit, partial(submit, executor)):
            futures.append(call(lambda: done.append(1)))

    machine.in_host(hand_over)
    machine.kill()
    assert [type(future.exception(0)) for future in futures] == [OSError, OSError]
    assert not done


def test_a_thread_of_others_takes_no_turn(machine: Machine) -> None:
    """A server of another test that syncs a file while a simulated thread has its turn."""
    moments: list[float] = []

    def work() -> None:
        moments.append(machine.loop.time())
        other = threading.Thread(target=lambda: machine.threads.pause(5_000))
        other.start()
        other.join()
        moments.append(machine.loop.time())

    async def main() -> None:
        await asyncio.wrap_future(machine.threads.start(work).ended)

    machine.run(main)
    began_s, ended_s = moments
    assert began_s == ended_s, "the clock stands still as long as a simulated thread has its turn"
