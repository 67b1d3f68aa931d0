# SPDX-License-Identifier: Apache-2.0
"""A database whose changes are random, a producer of change events that crashes, a broker and a Spark that are killed: at the end the table
of the example (examples/spark_merge_changes.py) equals the database row by row, and each damaged body is a dead letter.

`make change-kills` goes on for 100,000 changes and 20 kills with each producer.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

import sprocketmq as rmq
from interop.apache_cluster import free_ports
from interop.child import poll_until
from interop.send_ledger import read_topic
from interop.sprocket_server import SprocketServer
from system.spark.change_producers import BAD, TOPIC, Canal, ChangeProducer, Debezium
from system.spark.random_database import COLUMNS, KEYS, Key, RandomDatabase, Row
from system.spark.spark_processes import kill, session_of

CHANGES = int(os.environ.get("SPROCKETMQ_CHANGES", "5000"))
KILLS = int(os.environ.get("SPROCKETMQ_CHANGE_KILLS", "3"))
SEED = os.environ.get("SPROCKETMQ_CHANGE_SEED", "11" if KILLS <= 3 else str(random.randrange(1 << 32)))
GROUP = f"{TOPIC}-table"
_CHILD = Path(__file__).with_name("merged_changes.py")

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(1800 + 90 * KILLS)]


class Merging:
    """The example as a process that dies and comes back."""

    def __init__(self, folder: Path, namesrv_addr: str, format: str, table: str) -> None:
        self._folder, self._namesrv_addr = folder, namesrv_addr
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
        self._source = {"topic": TOPIC, "format": format, "table": table, "columns": columns, "keys": KEYS}
        self._process: subprocess.Popen[bytes] | None = None
        self._began_s = 0.0

    def start(self, follow: str = "follow") -> None:
        self._began_s = time.time()
        command = [sys.executable, _CHILD, self._namesrv_addr, self._folder, json.dumps(self._source), follow]
        with open(self._folder.with_suffix(".log"), "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> str:
        """Kill driver, JVM and workers; what the batch had reached."""
        process = self._process
        assert process is not None
        assert process.poll() is None, f"the stream ended by itself; see {self._folder.with_suffix('.log')}"
        for found in session_of(process.pid):
            kill(found.pid)
        process.wait()
        self._process = None
        planned, done = (self._last_batch(name) for name in ("checkpoint/offsets", "checkpoint/commits"))
        if planned == done:
            return "between batches"
        if not self.is_at_work():
            return "before it repeated a batch"
        return "merged, not committed" if self.merged() == planned else "in a batch"

    def end(self) -> None:
        """Let it merge what is there, and end."""
        self.start("to the end")
        assert self._process is not None
        assert self._process.wait(600) == 0, f"see {self._folder.with_suffix('.log')}"

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def is_at_work(self) -> bool:
        """This process has planned a batch, or writes the one that an earlier process planned."""
        planned, done = (self._last_batch(name) for name in ("checkpoint/offsets", "checkpoint/commits"))
        signs = [self._folder / f"checkpoint/offsets/{planned}", self._folder / f"v{planned}"]
        return planned > done and any(path.exists() and path.stat().st_mtime > self._began_s for path in signs)

    def merged(self) -> int:
        current = self._folder / "CURRENT"
        return int(current.read_text()) if current.exists() else -1

    def rows(self) -> dict[Key, Row]:
        kept = pyarrow.dataset.dataset(self._folder / f"v{self.merged()}").to_table().to_pylist()
        rows = [{name: row[name] for name in COLUMNS} for row in kept if not row["deleted"]]
        assert len(rows) == len({(row["shop"], row["id"]) for row in rows})
        return {(row["shop"], row["id"]): row for row in rows}

    def _last_batch(self, log: str) -> int:
        names = (self._folder / log).iterdir() if (self._folder / log).exists() else ()
        return max((int(path.name) for path in names if path.name.isdigit()), default=-1)


@contextmanager
def world(
    folder: Path, producer: str, dice: random.Random
) -> Iterator[tuple[SprocketServer, RandomDatabase, Any, Merging]]:
    first = free_ports(1)
    moves = producer == "debezium" or dice.random() < 0.5
    with SprocketServer(folder / "store", ports=(first, first + 1)) as server:
        server.create_topic(TOPIC, queues=4)
        database = RandomDatabase(folder / "items.db", dice.randrange(1 << 32), moves=moves)
        seed, table = dice.randrange(1 << 32), "shop.items"
        sender: ChangeProducer
        if producer == "canal-json":
            # Canal takes the new key of a row whose key changes, so then all changes of a table have to be in one queue.
            gtids = dice.random() < 0.5
            print(f"keys change: {moves}, GTIDs: {gtids}")
            sender = Canal(server.namesrv_addr, seed, gtids=gtids, by_key=not moves)
        else:
            connector = dice.choice(("mysql", "postgresql"))
            print(f"connector: {connector}")
            sender = debezium = Debezium(server.namesrv_addr, seed, connector=connector)
            list(database.change(500))
            debezium.snapshot(database)
            table = "shop.public.items" if connector == "postgresql" else table
        (folder / "table").mkdir()
        merging = Merging(folder / "table", server.namesrv_addr, producer, table)
        sender.start()
        try:
            yield server, database, sender, merging
        finally:
            merging.stop()
            sender.shutdown()


@pytest.mark.parametrize("producer", ["canal-json", "debezium"])
def test_the_table_equals_the_database_after_kills(tmp_path: Path, producer: str) -> None:
    print(f"\nseed {SEED}, {tmp_path}")
    dice = random.Random(SEED)
    began_s = time.monotonic()
    killed: Counter[str] = Counter()
    with world(tmp_path, producer, dice) as (server, database, sender, merging), ThreadPoolExecutor(1) as flow:
        share = CHANGES // (KILLS + 1)
        sending = flow.submit(sender.send, database.change(share))
        merging.start()
        for number in range(KILLS):
            before = merging.merged()
            match dice.choice(("anywhere", "in a batch", "in a batch", "merged", "later")):
                case "anywhere":
                    time.sleep(dice.uniform(0, 12))
                case "in a batch":
                    poll_until(merging.is_at_work, "a batch begins", timeout_s=300)
                    time.sleep(dice.uniform(0, 2))
                case "merged":
                    poll_until(
                        lambda before=before: merging.merged() != before,
                        "a batch is merged",
                        timeout_s=300,
                        pause_s=0.005,
                    )
                case "later":
                    poll_until(lambda before=before: merging.merged() != before, "a batch is merged", timeout_s=300)
                    time.sleep(dice.uniform(0, 4))
            broker_too = dice.random() < 0.3 or number == 1
            if broker_too:
                server.kill()
                killed["broker"] += 1
                time.sleep(dice.choice((0, 1)))  # for the batch to meet it
            killed[merging.kill()] += 1
            if broker_too:
                server.start()
            merging.start()
            sending.result(timeout=300)
            sending = flow.submit(sender.send, database.change(share))
        sending.result(timeout=300)
        sender.damages = False
        sender.send(database.touch(sender.damaged))
        killed[merging.kill()] += 1
        merging.end()

        print(
            f"{database.changes} changes, {sender.sent} messages, {sender.crashes} crashes of the producer, {sender.repeated} repeated"
        )
        print(f"killed: {dict(killed)}, {merging.merged() + 1} batches, {time.monotonic() - began_s:.0f} s")
        bad = {
            one.message_id
            for stored in read_topic(server.namesrv_addr, TOPIC).values()
            for one in stored
            if BAD in one.properties
        }
        with rmq.DeadLetters(GROUP, namesrv_addr=server.namesrv_addr) as letters:
            dead = [letter.message_id for letter in letters.read()]
        print(
            f"{len(bad)} damaged bodies, {len(dead)} dead letters, {len(dead) - len(set(dead))} twice; {len(database.rows())} rows"
        )
        assert KILLS < 20 or killed["in a batch"]
        assert set(dead) == bad
        assert_equal(merging.rows(), database.rows())


def assert_equal(table: dict[Key, Row], database: dict[Key, Row]) -> None:
    wrong = [
        (key, table.get(key), database.get(key))
        for key in table.keys() | database.keys()
        if table.get(key) != database.get(key)
    ]
    assert not wrong, f"{len(wrong)} rows differ, such as {wrong[:3]}"
