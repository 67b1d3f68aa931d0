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


def test_ctrl_c_stops_everything_and_says_what_was_left(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "sprocketmq.cli", "demo", "--no-spark", "--rows", "20000", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DEMO_OF": str(out)},
    )
    try:
        deadline_s = time.monotonic() + DEADLINE_S
        while not (out / "logs" / "push-1.log").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said, complaints = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Stopped during 'push group, 2 members'" in " ".join(said.split())
    assert "Traceback" not in said + complaints
    assert_no_process_of(out)


def assert_no_process_of(out: Path) -> None:
    """No child outlives the demo."""
    left = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"DEMO_OF={out}".encode() in (entry / "environ").read_bytes():
                left.append((entry / "cmdline").read_bytes())
    assert left == []


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("the only copy")
    done = run_demo(tmp_path, "--no-spark")
    assert done.returncode == 2
    assert done.stderr.startswith(f"sprocketmq: --out {tmp_path} holds files that are not the demo's")
    assert (tmp_path / "thesis.txt").read_text() == "the only copy"
