"""Clients of a process that are shared by key: who has one uses it, few stay that nobody uses."""

from __future__ import annotations

import gc
import threading

from sprocketmq.spark.cluster.shared_clients import SharedClients


class _Client:
    def __init__(self, name: str) -> None:
        self.name = name


def _get(clients: SharedClients[str, _Client], key: str) -> _Client:
    return clients.get(key, lambda _: _Client(key))


def _names(clients: SharedClients[str, _Client]) -> list[str]:
    gc.collect()
    return sorted(client.name for client in clients.values())


def test_of_those_that_nobody_uses_the_last_ones_stay() -> None:
    clients: SharedClients[str, _Client] = SharedClients(most=2)
    for key in ("a", "b", "a", "c"):
        _get(clients, key)
    assert _names(clients) == ["a", "c"]


def test_one_that_somebody_uses_stays_and_is_found() -> None:
    clients: SharedClients[str, _Client] = SharedClients(most=2)
    used = _get(clients, "a")
    for key in ("b", "c", "d"):
        _get(clients, key)
    assert _names(clients) == ["a", "c", "d"]
    assert _get(clients, "a") is used


def test_one_that_another_thread_uses_stays() -> None:
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


def test_one_that_does_not_fit_goes_when_its_user_lets_go_of_it() -> None:
    clients: SharedClients[str, _Client] = SharedClients()
    old = _get(clients, "a")
    new = clients.get(
        "a", lambda known: _Client(f"after {known.name if known else None}"), lambda client: client is not old
    )
    assert new.name == "after a"
    clients.keep("a", old)  # it is not the one of its key any more
    assert _get(clients, "a") is new
    assert _names(clients) == ["after a"]


def test_two_threads_that_ask_at_once_get_one_client() -> None:
    clients: SharedClients[str, _Client] = SharedClients()
    is_made, may_go, got = threading.Event(), threading.Event(), []

    def make(_: _Client | None) -> _Client:
        is_made.set()
        may_go.wait()
        return _Client("a")

    threads = [threading.Thread(target=lambda: got.append(clients.get("a", make))) for _ in range(2)]
    threads[0].start()
    is_made.wait()
    threads[1].start()
    may_go.set()
    for thread in threads:
        thread.join()
    assert got[0] is got[1]
