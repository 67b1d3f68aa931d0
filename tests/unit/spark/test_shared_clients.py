# SPDX-License-Identifier: Apache-2.0
"""Clients of a process that are shared by key: who has one uses it, few stay that nobody uses."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from sprocketmq.spark.cluster.shared_clients import SharedClients


class _Client:
    def __init__(self, name: str) -> None:
        self.name = name


def _get(clients: SharedClients[str, _Client], key: str) -> _Client:
    return clients.get(key, lambda _: _Client(key))


def _names(clients: SharedClients[str, _Client]) -> list[str]:
    return sorted(client.name for client in clients.values())


def test_of_unused_clients_those_used_last_stay() -> None:
    clients: SharedClients[str, _Client] = SharedClients(most=2)
    for key in ("a", "b", "a", "c"):
        _get(clients, key)
    assert _names(clients) == ["a", "c"]


def test_a_client_in_use_stays_and_is_found() -> None:
    clients: SharedClients[str, _Client] = SharedClients(most=2)
    used = _get(clients, "a")
    for key in ("b", "c", "d"):
        _get(clients, key)
    assert _names(clients) == ["a", "c", "d"]
    assert _get(clients, "a") is used


def test_a_client_that_another_thread_uses_stays() -> None:
    clients: SharedClients[str, _Client] = SharedClients(most=1)
    has_it, may_end, seen = threading.Event(), threading.Event(), []

    def task() -> None:
        mine = _get(clients, "a")
        has_it.set()
        may_end.wait()
        seen.append(_get(clients, "a") is mine)

    thread = threading.Thread(target=task)
    thread.start()
    has_it.wait()
    for key in ("b", "c", "d"):
        _get(clients, key)
    assert _names(clients) == ["a", "d"]
    may_end.set()
    thread.join()
    assert seen == [True]
    assert _names(clients) == ["a"]


def test_a_surplus_that_was_used_meanwhile_is_not_dropped() -> None:
    clients: SharedClients[str, _Client] = SharedClients(most=1, drops=False)
    for key in ("a", "b", "c"):
        _get(clients, key)
    assert _names(clients) == ["a", "b", "c"]
    surplus = clients.surplus()
    assert [found.key for found in surplus] == ["a", "b"]
    clients.keep("a", surplus[0].client)
    for found in surplus:
        clients.drop(found)
    del surplus, found
    assert _names(clients) == ["a", "c"]


def test_a_client_that_was_replaced_is_dropped_when_its_user_returns_it() -> None:
    clients: SharedClients[str, _Client] = SharedClients()
    old = _get(clients, "a")
    new = clients.get(
        "a", lambda known: _Client(f"after {known.name if known else None}"), lambda client: client is not old
    )
    assert new.name == "after a"
    clients.keep("a", old)  # it is not the one of its key any more
    assert _get(clients, "a") is new
    assert _names(clients) == ["after a"]


class _Slow:
    """One client that is not made before ``may_go``, asked for in a thread; ``made`` counts its makers."""

    def __init__(self, clients: SharedClients[str, _Client], fails: int = 0) -> None:
        self.is_made, self.may_go, self._fails = threading.Event(), threading.Event(), fails
        self.made, self.got, self.failed = 0, [], []
        self._clients = clients
        self._threads: list[threading.Thread] = []

    def ask(self) -> None:
        self._threads.append(threading.Thread(target=self._get))
        self._threads[-1].start()

    def end(self) -> None:
        self.may_go.set()
        for thread in self._threads:
            thread.join()

    def _get(self) -> None:
        try:
            self.got.append(self._clients.get("slow", self._make))
        except ConnectionError as error:
            self.failed.append(error)

    def _make(self, _: _Client | None) -> _Client:
        self.made += 1
        number = self.made
        self.is_made.set()
        self.may_go.wait()
        if number <= self._fails:
            raise ConnectionError("nobody is there")
        return _Client("slow")


def test_two_threads_that_ask_at_once_get_one_client() -> None:
    slow = _Slow(SharedClients())
    slow.ask()
    slow.is_made.wait()
    slow.ask()
    slow.end()
    assert slow.got[0] is slow.got[1]
    assert slow.made == 1


def test_a_client_that_starts_slowly_does_not_delay_others() -> None:
    clients: SharedClients[str, _Client] = SharedClients()
    slow, has_other, names = _Slow(clients), threading.Event(), []

    def task() -> None:
        names.append(_get(clients, "other").name)
        names.extend(_names(clients))
        has_other.set()

    slow.ask()
    slow.is_made.wait()
    other = threading.Thread(target=task)
    other.start()
    came = has_other.wait(30)
    slow.end()
    other.join()
    assert came
    assert names == ["other", "other"]
    assert _names(clients) == ["other", "slow"]


def test_a_caller_that_waited_for_a_failed_start_starts_the_client_itself() -> None:
    clients: SharedClients[str, _Client] = SharedClients()
    slow = _Slow(clients, fails=1)
    slow.ask()
    slow.is_made.wait()
    slow.ask()
    slow.end()
    assert (slow.made, len(slow.failed), [client.name for client in slow.got]) == (2, 1, ["slow"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_that_is_forked_while_one_is_made_does_not_wait_for_it() -> None:
    program = """
import os, signal, threading
from sprocketmq.spark.cluster.shared_clients import SharedClients

class Client:
    pass

clients, is_made, may_go = SharedClients(), threading.Event(), threading.Event()

def make(_):
    is_made.set()
    may_go.wait()
    return Client()

thread = threading.Thread(target=clients.get, args=("a", make))
thread.start()
is_made.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    clients.get("a", lambda _: Client())
    os._exit(0)
status = os.waitpid(child, 0)[1]
may_go.set()
thread.join()
print(status)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr
