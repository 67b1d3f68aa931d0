# SPDX-License-Identifier: Apache-2.0
"""The requests of `send_forms.py` in this checkout and in others, in turns: `python bench/forms_beside.py ../before [--forms plain,pull]`.

Each checkout has a process of its own, which imports ``src`` of that checkout with this Python. The processes take turns, form by form, so
the machine's other work is the same for all. Printed is the best processor time of a request over all rounds, and its proportion to the
first other checkout. No socket; no checkout needs to be set up.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, Any, Final

from counting_peer import Peer

ROOT: Final = Path(__file__).resolve().parents[1]
# As a broker's own process sets it (``sprocketmq broker``), so that a read's memory is not given back after each read.
_MALLOC: Final = {
    "MALLOC_MMAP_THRESHOLD_": "268435456",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}
_WARM: Final = 5  # reads

# What a worker gets: name -> (frames, requests in them, answers, settings of the broker). It imports nothing else of this checkout.
_Forms = Mapping[str, tuple[bytes, int, int, Mapping[str, Any]]]
_USER: Final = ("other-producer", "87654321-secret")  # OTHER in send_forms.py


# -- a worker: one checkout ---------------------------------------------------------------------------------------------------------


async def work(given: IO[bytes], told: IO[bytes]) -> None:
    """Open a connection for each form, then answer each name with the processor time of a request of that form."""
    from sprocketmq.broker import Broker, BrokerConfig

    forms: _Forms = pickle.load(given)
    opened: dict[str, tuple[Any, Peer]] = {}
    async with AsyncExitStack() as started:
        for name, (_, _, _, settings) in forms.items():
            broker = await started.enter_async_context(Broker(port=0, config=BrokerConfig(**settings)))
            now_ms = int(time.time() * 1000)
            broker.topics.create_if_absent("plain", 4, now_ms)
            if name.startswith("users, policies"):
                _make_user(broker)
            peer = Peer()
            ports: Any = getattr(broker, "ports", None)  # a checkout of before has none
            new_server = ports.new_server if ports is not None else getattr(broker, "_new_server")  # noqa: B009
            connection = new_server()._new_connection()
            connection.connection_made(peer)
            opened[name] = connection, peer
            if name.startswith("pull"):
                await _feed(connection, peer, forms["plain"][0], forms["plain"][1])
        gc.collect()
        gc.freeze()
        while line := given.readline():
            name = line.decode().rstrip()
            (frames, requests, answers, _), (connection, peer) = forms[name], opened[name]
            for _ in range(_WARM):  # not counted: the other processes left other caches
                await _feed(connection, peer, frames, answers)
            began_s = time.process_time()
            await _feed(connection, peer, frames, answers)
            pickle.dump((time.process_time() - began_s) / requests * 1e6, told)
            told.flush()
            await asyncio.sleep(0)


async def _feed(connection: Any, peer: Peer, frames: bytes, answers: int) -> None:
    """Give the connection one read, and wait for its answers."""
    peer.expect(answers)
    connection.data_received(frames)
    if peer.count < answers:
        await asyncio.wait_for(peer.all_came.wait(), 60)
    elif not answers:
        await asyncio.sleep(0)  # one-way requests for which the share of a read was not enough


def _make_user(broker: Any) -> None:
    from sprocketmq.wire.bodies import PolicyEntryInfo, PolicyInfo, UserInfo

    broker.users.table.create_user(UserInfo(*_USER))
    entry = PolicyEntryInfo("Topic:plain", ["Pub"], None, "Allow")
    broker.users.table.update_acl(_USER[0], [PolicyInfo("Custom", [entry])])


# -- the process that compares ------------------------------------------------------------------------------------------------------


class Worker:
    """The process of one checkout."""

    def __init__(self, checkout: Path, folder: Path, forms: _Forms) -> None:
        self.name = checkout.name
        environment = {**os.environ, **_MALLOC, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"}
        command = [sys.executable, __file__, "--work"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=folder
        )
        own = folder / self.name
        own.mkdir(exist_ok=True)
        moved = {
            name: (*form[:3], {key: _moved(value, folder, own) for key, value in form[3].items()})
            for name, form in forms.items()
        }
        assert self._process.stdin is not None
        pickle.dump(moved, self._process.stdin)

    def measure(self, line: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        return float(pickle.load(self._process.stdout))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def _moved(value: Any, folder: Path, own: Path) -> Any:
    """A setting, with a store below the folder of the checkout; files that both read stay where they are."""
    text = str(value)
    return text.replace(str(folder), str(own)) if text.startswith(str(folder)) and not Path(text).is_file() else value


def compare(checkouts: list[Path], folder: Path, forms: _Forms, rounds: int) -> None:
    """Print the table."""
    workers = [Worker(checkout, folder, forms) for checkout in checkouts]
    best = {(worker.name, name): float("inf") for worker in workers for name in forms}
    for number in range(rounds):
        for name in forms:
            for worker in workers if number % 2 else workers[::-1]:
                best[worker.name, name] = min(best[worker.name, name], worker.measure(name))
    for worker in workers:
        worker.close()
    print(f"{'us for each request':32}", *(f"{worker.name:>14} {'':6}" for worker in workers))
    for name in forms:
        first = best[workers[0].name, name]
        figures = (f"{best[worker.name, name]:14.2f} {best[worker.name, name] / first:6.3f}" for worker in workers)
        print(f"{name:32}", *figures)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="*")
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--forms", default="", help="only forms that begin with one of these, by commas")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the random forms")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.disable(logging.WARNING)  # no broker has a name server
    if args.work:
        asyncio.run(work(sys.stdin.buffer, sys.stdout.buffer))
        return
    from send_forms import OTHER, forms

    assert OTHER == _USER
    print(f"seed {args.seed}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begins = tuple(part for part in args.forms.split(",") if part)
        found = {
            key: (form.frames, form.requests, form.answers, dict(form.settings))
            for key, form in forms(folder, args.seed).items()
        }
        chosen = {key: form for key, form in found.items() if not begins or key == "plain" or key.startswith(begins)}
        checkouts = [*(path.resolve() for path in args.checkouts), ROOT]
        compare(checkouts, folder, chosen, args.rounds)


if __name__ == "__main__":
    main()
