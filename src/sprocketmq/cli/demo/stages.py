# SPDX-License-Identifier: Apache-2.0
"""The demo's stages in its own process: start the children, count what they report, compare it with the data set."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from rich.progress import Progress

import sprocketmq as rmq
from sprocketmq.cli.demo.audit import ask_lag, read_flights
from sprocketmq.cli.demo.children import Children
from sprocketmq.cli.demo.flights import FlightBody, Flights
from sprocketmq.cli.demo.publish import publish
from sprocketmq.cli.demo.reconcile import Check, Reconciliation
from sprocketmq.cli.demo.reports import (
    MAX_RECONSUME_TIMES,
    ORDERLY_GROUP,
    PUSH_GROUP,
    SPARK_GROUP,
    TOPIC,
    Batch,
    Deliveries,
    InOrder,
    Options,
)
from sprocketmq.cli.frame.target import Target

_MEMBERS: Final = 2
# If members report nothing for this long, the stage ends; the reconciliation then shows what is missing.
_PATIENCE_S: Final = 60.0
# A batch reports when it is done, which takes minutes on a busy machine.
_SPARK_PATIENCE_S: Final = 600.0
_DEAD_LETTER_PATIENCE_S: Final = 30.0


Show = Callable[..., None]


@dataclass(frozen=True)
class Run:
    flights: Flights
    target: Target
    out: Path
    progress: Progress
    findings: Reconciliation

    @property
    def logs(self) -> Path:
        return self.out / "logs"

    @asynccontextmanager
    async def bar(self, title: str) -> AsyncIterator[Show]:
        """A function that shows how many flights are ``completed`` in a stage, and a ``detail``."""
        task = self.progress.add_task(title, total=len(self.flights), detail="")
        yield partial(self.progress.update, task)
        self.progress.stop_task(task)


class Pace:
    """Rows for each second, from when the first were there to when the last were: waits for retries are left out."""

    def __init__(self, rows: int = 0) -> None:
        self._began_s, self._first = time.perf_counter(), rows
        self._ended_s, self._last = self._began_s, rows

    def at(self, rows: int) -> None:
        if rows > self._last:
            self._ended_s, self._last = time.perf_counter(), rows

    def __str__(self) -> str:
        return _rate(self._last - self._first, self._ended_s - self._began_s)


async def publish_all(run: Run) -> None:
    async with run.bar("publishing") as show:
        published = await publish(run.flights, lambda count: show(advance=count), **run.target.options())
        rate = _rate(published.acknowledged, published.seconds)
        show(detail=f"{rate} acknowledged; reading them back")
        stored = await read_flights(run.target)
        show(detail=f"{rate} acknowledged")
    rows = {_row(message) for message in stored}
    run.findings.add(
        "publish",
        Check("messages acknowledged", published.acknowledged, len(run.flights)),
        Check("messages on the broker", len(stored), len(run.flights)),
        run.findings.rows("distinct flights on the broker", rows, set(range(len(run.flights)))),
        Check("distinct message ids", len({message.message_id for message in stored}), len(run.flights)),
        Check("throughput", rate),
    )


async def consume_with_retry(run: Run) -> None:
    bad, wanted = run.flights.bad_rows, len(run.flights)
    consumed: set[int] = set()
    failures: dict[tuple[int, int], str] = {}
    failed = [0] * (MAX_RECONSUME_TIMES + 1)  # deliveries, by how many were before
    deliveries, pace = 0, None

    def take(done: Deliveries) -> None:
        nonlocal deliveries, pace
        deliveries += len(done.consumed) + len(done.failed)
        consumed.update(done.consumed)
        for failure in done.failed:
            failures[failure.row, failure.reconsume_times] = failure.message_id
            failed[min(failure.reconsume_times, MAX_RECONSUME_TIMES)] += 1
        pace = pace or Pace(len(consumed))
        pace.at(len(consumed))
        given_up = len({row for row, times in failures if times >= MAX_RECONSUME_TIMES})
        show(completed=len(consumed) + given_up, detail=f"{sum(failed[1:]):,} retries, {given_up:,} given up")

    async with (
        run.bar(f"push group, {_MEMBERS} members") as show,
        Children("push_member", Deliveries, run.logs) as members,
    ):
        for member in range(1, _MEMBERS + 1):
            await members.start(f"push-{member}", Options(run.target, member, _MEMBERS))
        async for done in members.reports(_PATIENCE_S):
            take(done)
            # Each failed delivery has one retry copy; a flight that was delivered twice while the members shared out the queues has two.
            if len(consumed) + len(bad) >= wanted and len(set(failed)) == 1:
                break
        dead = await _dead_letters(run, PUSH_GROUP, show)
        members.finish()
        async for done in members.reports(_PATIENCE_S):
            take(done)
    ids = {(row, message_id) for (row, _), message_id in failures.items()}
    run.findings.add(
        "push group",
        run.findings.rows("flights consumed", consumed, set(range(wanted)) - bad),
        run.findings.rows("flights that failed", {row for row, _ in failures}, bad),
        Check("retries", sum(1 for _, times in failures if times), MAX_RECONSUME_TIMES * len(bad)),
        Check("message ids of failed flights", len(ids), len(bad), _changed_ids(len(ids), len(bad))),
        run.findings.rows("dead-lettered", set(dead), bad),
        Check("dead letters under the same message id", len(ids & set(dead.items())), len(bad)),
        Check("repeated deliveries", deliveries - len(consumed) - len(failures)),
        Check("throughput", str(pace or "none")),
        await _lag(run, PUSH_GROUP),
    )


async def consume_in_order(run: Run) -> None:
    rows: set[int] = set()
    repeated = inversions = 0
    pace = None
    async with run.bar("orderly group") as show, Children("orderly_member", InOrder, run.logs) as members:
        await members.start("orderly", Options(run.target))
        async for seen in members.reports(_PATIENCE_S):
            rows.update(seen.rows)
            repeated, inversions = repeated + seen.repeated, inversions + seen.inversions
            pace = pace or Pace(len(rows))
            pace.at(len(rows))
            show(completed=len(rows), detail=f"{inversions:,} inversions")
            if len(rows) >= len(run.flights):
                members.finish()
    run.findings.add(
        "orderly group",
        run.findings.rows("flights consumed", rows, set(range(len(run.flights)))),
        Check("order inversions", inversions, 0),
        Check("repeated deliveries", repeated),
        Check("throughput", str(pace or "none")),
        await _lag(run, ORDERLY_GROUP),
    )


@asynccontextmanager
async def started_spark(run: Run) -> AsyncIterator[Children[Batch]]:
    """Spark starts now, and the pipeline waits until it may go on."""
    async with Children("pipeline", Batch, run.logs) as driver:
        await driver.start("spark", Options(run.target, out=str(run.out)))
        yield driver


async def run_pipeline(run: Run, driver: Children[Batch]) -> None:
    import pandas as pd

    from sprocketmq.cli.demo.picture import draw_delays

    bad, wanted = run.flights.bad_rows, len(run.flights)
    batches, sums, pace = 0, Batch(0, 0, 0), Pace()

    def take(batch: Batch) -> None:
        nonlocal batches, sums
        batches += 1
        sums = Batch(sums.good + batch.good, sums.retried + batch.retried, sums.dead + batch.dead)
        if batch.good:  # later batches wait for retries
            pace.at(sums.good + sums.retried + sums.dead)
        show(completed=sums.good + sums.dead, detail=f"{batches} batches, {sums.retried:,} retries, {sums.dead:,} dead")

    async with run.bar("Spark pipeline") as show:
        show(detail="the first batch")
        driver.go_on()
        async for batch in driver.reports(_SPARK_PATIENCE_S):
            take(batch)
            if sums.good + sums.dead >= wanted:
                break
        show(detail="writing the means")
        driver.finish()
        async for batch in driver.reports(_SPARK_PATIENCE_S):
            take(batch)
        dead = await _dead_letters(run, SPARK_GROUP, show)
        show(detail=f"{batches} batches, {sums.retried:,} retries, {len(dead):,} dead")
    flights = pd.read_parquet(run.out / "flights.parquet", columns=["row"])["row"]
    delays = pd.read_parquet(run.out / "delays.parquet")
    run.findings.add(
        "Spark pipeline",
        run.findings.rows("rows in Parquet", set(flights), set(range(wanted)) - bad),
        Check("of them more than once", len(flights) - flights.nunique(), 0),
        Check("retries", sums.retried, MAX_RECONSUME_TIMES * len(bad)),
        run.findings.rows("dead-lettered", set(dead), bad),
        *run.findings.means(delays),
        Check("throughput", str(pace)),
        await _lag(run, SPARK_GROUP),
    )
    departures = int(delays["flights"].sum())
    subtitle = (
        f"{departures:,} departures from New York City in 2013, by carrier and scheduled hour; "
        f"from topic {TOPIC} through Spark to Parquet"
    )
    draw_delays(delays, run.out / "delays.png", subtitle)


async def _dead_letters(run: Run, group: str, show: Show) -> dict[int, str]:
    """Row and message id of all dead letters of the group, when the expected number is there or no more arrive."""
    wanted = len(run.flights.bad_rows)
    async with rmq.AsyncDeadLetters(group, **run.target.options()) as letters:
        deadline_s, before = time.monotonic() + _DEAD_LETTER_PATIENCE_S, -1
        while (count := await letters.count()) < wanted and time.monotonic() < deadline_s:
            if count != before:
                deadline_s, before = time.monotonic() + _DEAD_LETTER_PATIENCE_S, count
                show(detail=f"{count:,} of {wanted:,} dead-lettered")
            await asyncio.sleep(0.1)
        return {_row(letter.message): letter.message_id async for letter in letters.read()}


async def _lag(run: Run, group: str) -> Check:
    lag = await ask_lag(group, run.target, run.logs / f"lag-{group}.log")
    if isinstance(lag, str):
        return Check("lag, asked by another process", "unknown", 0, lag)
    return Check("lag, asked by another process", lag, 0)


_decode_flight: Final = msgspec.json.Decoder(FlightBody).decode


def _row(message: rmq.MessageExt) -> int:
    return _decode_flight(message.body).row


def _changed_ids(ids: int, flights: int) -> str:
    return f"{ids - flights:,} message ids changed from one delivery to the next" if ids > flights else ""


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f} messages/s" if count and seconds else "too few to tell"
