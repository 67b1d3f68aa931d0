# SPDX-License-Identifier: Apache-2.0
"""The demo from end to end, on the first flights of the data set, as a user starts it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from secured_broker import secured_broker
from sprocketmq.cli.demo.flights import load_flights

ROWS = 3_000
# Spark on a busy machine: a limit against hanging, not a measure.
DEADLINE_S = 540

pytestmark = pytest.mark.timeout(600)


def run_demo(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sprocketmq.cli", "demo", "--rows", str(ROWS), "--out", str(out), *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, "COLUMNS": "160"},
    )


def numbers(out: Path) -> dict[tuple[str, str], Any]:
    summary = json.loads((out / "summary.json").read_text())
    return {
        (stage, check["name"]): check["measured"] for stage, checks in summary["stages"].items() for check in checks
    }


@pytest.mark.spark
def test_every_number_reconciles_and_the_pictures_source_is_right(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run_demo(out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every number reconciles" in done.stdout
    bad = load_flights(ROWS).bad_rows
    measured = numbers(out)
    assert measured["publish", "distinct flights on the broker"] == ROWS
    assert measured["push group", "flights consumed"] == ROWS - len(bad)
    assert measured["push group", "retries"] == 2 * len(bad)
    assert measured["push group", "dead-lettered"] == len(bad)
    assert measured["orderly group", "order inversions"] == 0
    assert measured["Spark pipeline", "retries"] == 2 * len(bad)
    assert measured["Spark pipeline", "dead-lettered"] == len(bad)
    for group in ("push group", "orderly group", "Spark pipeline"):
        assert measured[group, "lag, asked by another process"] == 0
    delays = pd.read_parquet(out / "delays.parquet").sort_values(["carrier", "hour"], ignore_index=True)
    pd.testing.assert_frame_equal(delays, load_flights(ROWS).mean_delays, check_dtype=False)
    assert (out / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert not (out / "store").exists()


@pytest.mark.nightly
@pytest.mark.spark
def test_a_cluster_that_asks_for_keys(tmp_path: Path) -> None:
    with secured_broker(tmp_path) as secured:
        at = ("-n", secured.namesrv_addr)
        refused = run_demo(tmp_path / "out", "--no-spark", *at)
        assert refused.returncode == 1, refused
        done = run_demo(tmp_path / "out", *at, "--secret-key-file", str(secured.file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every number reconciles" in done.stdout


def test_the_demo_runs_twice_and_without_spark(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        done = run_demo(out, "--no-spark", "--keep")
        assert done.returncode == 0, done.stdout + done.stderr
    assert (out / "store" / "commitlog").is_dir()


PLACES = (
    "before the first stage",
    "during 'publishing'",
    "during 'push group, 2 members'",
    "during 'orderly group'",
    "during 'Spark pipeline'",
)


@pytest.mark.parametrize(
    ("number", "begun", "earliest"),
    [
        (signal.SIGINT, "serve", "before the first stage"),
        (signal.SIGTERM, "serve", "before the first stage"),
        (signal.SIGINT, "push-1", "during 'push group, 2 members'"),
        (signal.SIGINT, "push-2", "during 'push group, 2 members'"),
        (signal.SIGINT, "orderly", "during 'orderly group'"),
        pytest.param(signal.SIGINT, "spark", "before the first stage", marks=pytest.mark.spark),
    ],
)
def test_an_interrupt_stops_everything_and_says_what_was_left(
    tmp_path: Path, number: int, begun: str, earliest: str
) -> None:
    """At the worst moment: a child process just begins. The demo goes on until the signal comes, and not every child holds it up."""
    out = tmp_path / "out"
    with demo_until_log(out, begun) as process:
        process.send_signal(number)
        process.send_signal(number)  # an impatient user's
        said, complaints = process.communicate(timeout=DEADLINE_S)
        assert processes_of(out) == []
    assert process.returncode == 130
    told = " ".join(said.split())
    assert any(f"Stopped {place}" in told for place in PLACES[PLACES.index(earliest) :]), told
    assert "Traceback" not in said + complaints


def test_children_end_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with demo_until_log(out, "push-2") as process:
        process.kill()
        process.communicate(timeout=DEADLINE_S)
        deadline_s = time.monotonic() + DEADLINE_S
        while left := processes_of(out):
            assert time.monotonic() < deadline_s, left
            time.sleep(0.05)


@contextlib.contextmanager
def demo_until_log(out: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    """A demo whose child with this log was just started."""
    spark = ["--spark" if name == "spark" else "--no-spark"]
    process = subprocess.Popen(
        [sys.executable, "-m", "sprocketmq.cli", "demo", *spark, "--rows", "2000", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DEMO_OF": str(out)},
    )
    try:
        deadline_s = time.monotonic() + DEADLINE_S
        while not (out / "logs" / f"{name}.log").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline_s
            time.sleep(0.001)
        yield process
    finally:
        process.kill()


def processes_of(out: Path) -> list[bytes]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"DEMO_OF={out}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes())
    return found


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("the only copy")
    done = run_demo(tmp_path, "--no-spark")
    assert done.returncode == 2
    assert done.stderr.startswith(f"sprocketmq: --out {tmp_path} holds files that are not the demo's")
    assert (tmp_path / "thesis.txt").read_text() == "the only copy"
