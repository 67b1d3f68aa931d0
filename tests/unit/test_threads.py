# SPDX-License-Identifier: Apache-2.0
"""Work for threads that cannot be started."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from refused_threads import refused_threads
from sprocketmq.threads import ClaimedWork, submit


def test_work_runs_on_the_executors_thread() -> None:
    with ThreadPoolExecutor(1, "worker") as executor:
        assert submit(executor, lambda: threading.current_thread().name).result(30).startswith("worker")


def test_without_a_thread_work_runs_here_and_never_again() -> None:
    runs: list[tuple[str, str]] = []
    with ThreadPoolExecutor(1, "worker") as executor:
        with refused_threads("worker") as refused:
            done = submit(executor, lambda: runs.append(("older", threading.current_thread().name)))
            assert (done.done(), len(refused)) == (True, 1)
        submit(executor, lambda: runs.append(("newer", ""))).result(30)
    assert runs == [("older", threading.current_thread().name), ("newer", "")]


def test_an_executor_alone_runs_the_older_work_late() -> None:
    """Why ``submit`` is there; when this fails, Python has mended it."""
    runs: list[str] = []
    with ThreadPoolExecutor(1, "worker") as executor:
        with refused_threads("worker"), pytest.raises(RuntimeError, match="can't start new thread"):
            executor.submit(runs.append, "older")
        executor.submit(runs.append, "newer").result(30)
    assert runs == ["older", "newer"]


def test_what_the_work_raises_is_its_outcome() -> None:
    def fail() -> None:
        raise OSError("full")

    executor = ThreadPoolExecutor(1, "worker")
    with executor, refused_threads("worker"):
        assert str(submit(executor, fail).exception(30)) == "full"
    assert str(submit(executor, fail).exception(30)) == "full"  # it was shut down


def test_claimed_work_does_not_run() -> None:
    work = ClaimedWork(lambda: pytest.fail("it ran"))
    assert work.claim() is not None
    work()
    assert work.claim() is None
    assert not work.outcome.done()


def test_what_stays_in_a_queue_keeps_nothing_of_the_work() -> None:
    class Text:
        def save(self) -> None:
            pass

    text = Text()
    kept = weakref.ref(text)
    with ThreadPoolExecutor(1, "worker") as executor, refused_threads("worker"):
        submit(executor, text.save)
        del text
        gc.collect()
        assert kept() is None
