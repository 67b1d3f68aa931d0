# SPDX-License-Identifier: Apache-2.0
"""A wait for another thread or process hangs for ever if that one is gone: each has a limit, or is here with the reason why it ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src/sprocketmq"

DONE = "it has ended already"
KILLED = "the process was killed, or has ended"
FLUSHED = "the flush thread fails all its waiters when it ends, for whatever reason"
OWN_POOL = "a thread of a ThreadPoolExecutor, which the interpreter joins before it ends"
NO_WAIT = "not a wait"
TURN = "the thread that has the turn gives it back"

WAITS = {
    "broker/delivery/timer_messages.py: self._store.when_durable(end).result()": FLUSHED,
    "broker/index_building.py: self._ready.result()": DONE,
    "broker/settings/config_store.py: self._store.when_durable(self._store.max_physical_offset).result()": FLUSHED,
    "broker/settings/config_store.py: writing.outcome.result()": DONE,
    "cli/serve/application.py: _async(consumer).wait()": "a coroutine",
    "cli/serve/local_cluster.py: process.wait()": KILLED,
    "cli/serve/reloading.py: process.wait()": "a child that ends within its --stop-timeout",
    "cli/serve/serving.py: wait.result()": DONE,
    "client/listen/listener_call.py: result.result()": DONE,
    "client/listen/listener_pool.py: _caller.get()": NO_WAIT,
    "client/listen/thread_listener_pool.py: self._offers.get()": "a worker, for work; nobody waits for it without a limit",
    "client/metrics.py: thread.join()": "its server was stopped; not as the interpreter ends",
    "client/produce/request_reply.py: reply.result()": DONE,
    "client/remoting/concurrent_work.py: end.result()": DONE,
    "client/remoting/routes.py: question.result()": DONE,
    "net/output/write_turns.py: turn.result()": DONE,
    "net/pool.py: opening.task.result()": DONE,
    "net/pool.py: task.result()": DONE,
    "net/process/engine.py: self._gate.acquire()": "nobody has it yet",
    "net/process/engine.py: task.result()": DONE,
    "spark/transactions/half_messages.py: task.result()": DONE,
    "spark/transactions/transactional_write.py: TaskContext.get()": NO_WAIT,
    "spark/write/writer.py: TaskContext.get()": NO_WAIT,
    "store/disk_message_store.py: self._lock.acquire()": NO_WAIT,
    "store/files/lock_file.py: _held_lock.acquire()": "before a fork, which the same thread ends",
    "store/files/preallocation.py: written.result()": OWN_POOL,
    "store/services/flush.py: self._thread.join()": "the thread ends after its round; not as the interpreter ends",
    "testing/simulation/disk.py: current_process.get()": NO_WAIT,
    "testing/simulation/forked.py: self._child.join()": KILLED,
    "testing/simulation/loop.py: current_process.get()": NO_WAIT,
    "testing/simulation/network.py: current_process.get()": NO_WAIT,
    "testing/simulation/threads.py: current_process.get()": NO_WAIT,
    "testing/simulation/threads.py: self._threads.back.acquire()": TURN,
    "testing/simulation/threads.py: self.back.acquire()": TURN,
    "testing/simulation/threads.py: self._lock.acquire()": TURN,
    "testing/simulation/threads.py: self._thread.ended.result()": TURN,
    "testing/simulation/threads.py: self._thread.join()": DONE,
    "testing/simulation/threads.py: self._turn.acquire()": TURN,
    "testing/simulation/users/member.py: one.result()": DONE,
    "testing/simulation/threads.py: self.acquire()": TURN,
    "testing/simulation/users/member.py: life.result()": DONE,
    "testing/simulation/users/member.py: task.result()": DONE,
    "testing/simulation/world.py: current_process.get()": NO_WAIT,
    "testing/simulation/world.py: ended.result()": DONE,
}


def _waits(path: Path) -> Iterator[str]:
    """Each call of a method by which a thread waits, without a limit."""
    tree = ast.parse(path.read_text("utf-8"))
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    coroutines = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("ensure_future", "wait_for", "_first_of")
        for argument in node.args
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("wait", "join", "result", "get", "acquire")
            and not node.args
            and not any(word.arg in ("timeout", "blocking") for word in node.keywords)
            and id(node) not in awaited | coroutines
        ):
            yield f"{path.relative_to(SRC)}: {ast.unparse(node)}"


def test_each_wait_without_a_limit_is_known() -> None:
    found = {wait for path in sorted(SRC.rglob("*.py")) for wait in _waits(path)}
    new, gone = sorted(found - WAITS.keys()), sorted(WAITS.keys() - found)
    assert not new, "give each a timeout, or add it to WAITS with the reason why it ends"
    assert not gone, "remove from WAITS what is not in the code any more"
