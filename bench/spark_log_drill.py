# SPDX-License-Identifier: Apache-2.0
"""How many lines of ours a driver, its Python workers and the servers log in minutes of trouble, in real time:

    .venv/bin/python bench/spark_log_drill.py [--show N] [--minutes 10] [TROUBLE ...]

Two brokers and a name server are processes; the stream is `tests/system/spark/log_drill_job.py`. A file `sitecustomize.py` on the path
of the driver and of each worker collects what reaches the logger `sprocketmq` at WARNING and above, by process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

import sprocketmq as rmq  # noqa: E402
from interop.apache_cluster import free_ports  # noqa: E402
from interop.child import Child, poll_until, unwind_on_sigterm  # noqa: E402

KEYS: Final = ("Worker77", "worker-secret")
WORKER: Final = {"accessKey": KEYS[0], "secretKey": KEYS[1], "defaultTopicPerm": "PUB|SUB", "defaultGroupPerm": "SUB"}
BOSS: Final = {"accessKey": "Boss7777", "secretKey": "boss-secret", "admin": True}
_COLLECT: Final = """
import logging, os, sys, time
class Collect(logging.Handler):
    def emit(self, record):
        role = "driver" if sys.argv and "log_drill_job" in sys.argv[0] else "worker"
        line = "%.1f %s %s: %s\\n" % (time.time(), record.levelname, record.name, record.getMessage().replace("\\n", " "))
        with open(os.environ["LOG_DRILL"] + "/%s-%d.txt" % (role, os.getpid()), "a") as file:
            file.write(line)
logging.getLogger("sprocketmq").addHandler(Collect(logging.WARNING))
"""


class Drill:
    def __init__(self, folder: Path) -> None:
        self.folder, self.logs = folder, folder / "logs"
        self.logs.mkdir()
        (folder / "site").mkdir()
        (folder / "site/sitecustomize.py").write_text(_COLLECT)
        self.write_accounts(WORKER, BOSS)
        self._first = free_ports(*range(1, 30))
        self.address = f"127.0.0.1:{self._first + 1}"
        boss = {"access_key": BOSS["accessKey"], "secret_key": BOSS["secretKey"]}
        self._options: Any = {"namesrv_addr": self.address, **boss}
        self._servers: dict[str, Child] = {}
        self.is_bad = False
        self._over = threading.Event()
        self._stack = contextlib.ExitStack()

    def write_accounts(self, *accounts: dict[str, Any]) -> None:
        (self.folder / "acl.yml").write_text(json.dumps({"accounts": accounts}))

    def __enter__(self) -> Drill:
        self._stack.callback(self._end)
        for name in ("namesrv", "broker-a", "broker-b"):
            self.start(name)
        with rmq.Admin(**self._options) as admin:
            for topic in ("rows", "sink"):
                admin.create_topic(topic, queues=8)
            admin.create_group("drill")
        producer = self._stack.enter_context(rmq.Producer("drill-rows", **self._options))
        sending = threading.Thread(target=self._send, args=(producer,))
        sending.start()
        self._stack.callback(sending.join)
        self._stack.callback(self._over.set)
        env = {"PYTHONPATH": f"{self.folder}/site:{ROOT}/tests:{ROOT}/src", "LOG_DRILL": str(self.logs)}
        job = [sys.executable, str(ROOT / "tests/system/spark/log_drill_job.py"), str(self.folder), self.address, *KEYS]
        self.job = Child(job, self.folder / "job.txt", {**env, "PYSPARK_PYTHON": sys.executable})
        self._stack.callback(self.job.stop)
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "sprocketmq.cli"]
        if name == "namesrv":
            command += ["namesrv", "--port", self.address.rpartition(":")[2]]
        else:
            port = self._first + (10 if name == "broker-a" else 20)
            command += ["broker", "run", "--port", str(port), "-n", self.address, "--store", str(self.folder / name)]
            command += ["--set", f"brokerName={name}", "--set", "aclEnable=true"]
            command += ["--set", f"aclFile={self.folder}/acl.yml"]
        log = self.logs / f"{name}.txt"
        self._servers[name] = Child(command, log, {"PYTHONPATH": str(ROOT / "src")})
        self._servers[name].read_line(60)

    def signal(self, name: str, number: int) -> None:
        os.kill(self._servers[name].pid, number)

    def kill(self, name: str) -> None:
        self._servers[name].kill()

    def _end(self) -> None:
        for server in self._servers.values():
            server.stop()

    def _send(self, producer: rmq.Producer) -> None:
        number = 0
        while not self._over.wait(0.05):
            number += 1
            body = b"bad" if self.is_bad or number % 50 == 0 else b"%d" % number
            with contextlib.suppress(rmq.RocketMQError):
                producer.send(rmq.Message("rows", body, keys=f"row-{number}"))

    def consumed(self) -> int:
        with rmq.Admin(**self._options) as admin:
            return sum(at.max_offset for at in admin.topic_stats("sink").values())

    def wait_for_more(self, than: int) -> None:
        poll_until(lambda: self.consumed() > than, f"more than {than} rows are written")

    def starts(self) -> int:
        """How often the job has started its query."""
        self.job.close_input()
        lines: list[str] = []
        with contextlib.suppress(EOFError):
            while True:
                lines.append(self.job.read_line())
        return lines.count("started")

    # -- troubles --------------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def killed(self) -> Iterator[None]:
        self.kill("broker-a")
        yield
        self.start("broker-a")

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        self.signal("broker-a", signal.SIGSTOP)
        yield
        self.signal("broker-a", signal.SIGCONT)

    @contextlib.contextmanager
    def without_name_server(self) -> Iterator[None]:
        self.kill("namesrv")
        yield
        self.start("namesrv")

    @contextlib.contextmanager
    def account_revoked(self) -> Iterator[None]:
        self.write_accounts(BOSS)
        yield
        self.write_accounts(WORKER, BOSS)

    @contextlib.contextmanager
    def disk_full(self) -> Iterator[None]:
        self._set_level("1")
        yield
        self._set_level("90")

    def _set_level(self, percent: str) -> None:
        command = [sys.executable, "-m", "sprocketmq.cli", "broker", "config", "set", "broker-a"]
        keys = ["--access-key", BOSS["accessKey"], "--secret-key", BOSS["secretKey"]]
        subprocess.run(
            [*command, f"diskSpaceWarningLevelRatio={percent}", "-n", self.address, *map(str, keys)], check=True
        )

    @contextlib.contextmanager
    def bad_rows(self) -> Iterator[None]:
        self.is_bad = True
        yield
        self.is_bad = False


TROUBLES: Final = {
    "killed": Drill.killed,
    "frozen": Drill.frozen,
    "name server away": Drill.without_name_server,
    "account revoked": Drill.account_revoked,
    "disk full": Drill.disk_full,
    "bad rows": Drill.bad_rows,
}


def lines_of(logs: Path, began_s: float) -> dict[str, list[str]]:
    """By process, what the servers log at WARNING, too."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(logs.iterdir()):
        for line in file.read_text(errors="replace").splitlines():
            head = line.partition(" ")[0]
            if file.name.startswith(("driver", "worker")):
                if float(head) >= began_s:
                    found[file.stem].append(line.partition(" ")[2])
            elif " WARNING " in line or " ERROR " in line:
                at = time.strptime(line[:19], "%Y-%m-%d %H:%M:%S")
                if time.mktime(at) >= began_s - 1:
                    found[file.stem].append(line)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("troubles", nargs="*", metavar="TROUBLE", help=", ".join(TROUBLES))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--after", type=float, default=2.5, metavar="MINUTES", help="how long the end is waited for")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the first N lines of each process")
    given = parser.parse_args()
    unwind_on_sigterm()
    for trouble in given.troubles or TROUBLES:
        with tempfile.TemporaryDirectory(prefix="spark-log-drill-") as folder, Drill(Path(folder)) as drill:
            drill.wait_for_more(than=0)
            began_s = time.time()
            with TROUBLES[trouble](drill):
                time.sleep(given.minutes * 60)
            time.sleep(given.after * 60)
            drill.wait_for_more(than=drill.consumed())
            lines = lines_of(drill.logs, began_s)
            counts = ", ".join(f"{name} {len(texts)}" for name, texts in lines.items())
            print(f"{trouble}: {counts or 'nothing'}; the query was started {drill.starts()} times", flush=True)
            for name, texts in lines.items() if given.show else ():
                print(f"  {name}", *texts[: given.show], sep="\n    ", flush=True)


if __name__ == "__main__":
    main()
