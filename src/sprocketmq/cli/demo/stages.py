# SPDX-License-Identifier: Apache-2.0
"""The demo's stages in the parent process: start the members, count what they report, compare it with the data set."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.cli.demo import orderly_group, pipeline, push_group
from sprocketmq.cli.demo.flights import FlightBody
from sprocketmq.cli.demo.members import Members
from sprocketmq.cli.demo.publish import TOPIC, publish
from sprocketmq.cli.demo.reconcile import Check
from sprocketmq.cli.demo.server import ask_lag, count_messages, read_topic
from sprocketmq.core.resource_names import dlq_topic

if TYPE_CHECKING:
    from sprocketmq.cli.demo.stage import Bar, Stage

_MEMBERS: Final = 2
# If members report nothing for this long, the stage ends; the reconciliation then shows what is missing.
_PATIENCE_S: Final = 60.0
# A batch reports when it is done, which takes minutes on a busy machine.
_SPARK_PATIENCE_S: Final = 600.0
_DEAD_LETTER_PATIENCE_S: Final = 30.0
# Three times the retry delay of the push group.
_STRAGGLERS_S: Final = 3.0
# Two reports that were read together give no rate.
_SHORTEST_PACE_S: Final = 0.5


class ThroughputMeter:
    """Throughput between the first and the last report with new rows. The start of a process and the wait for a retry are left out."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)

    def at(self, count: int) -> None:
        now_s = time.perf_counter()
        self._first = self._first or (now_s, count)
        if count > self._last[1]:
            self._last = (now_s, count)

    def rate(self) -> str:
        if self._first is None or self._last[0] - self._first[0] < _SHORTEST_PACE_S:
            return "too few to tell"
        return _rate(self._last[1] - self._first[1], self._last[0] - self._first[0])


def publish_all(stage: Stage) -> None:
    with stage.bar("publishing") as bar:
        published = asyncio.run(publish(stage.target, stage.flights, bar.advance))
        bar.detail(f"{_rate(published.acknowledged, published.seconds)} acknowledged")
    stored = read_topic(stage.target, TOPIC)
    rows = [_row(message.body) for message in stored]
    stage.findings.add(
        "publish",
        Check("messages acknowledged", published.acknowledged, len(stage.flights)),
        Check("messages on the broker", len(stored), len(stage.flights)),
        stage.findings.rows("distinct flights on the broker", set(rows), set(range(len(stage.flights)))),
        Check("distinct message ids", len({message.message_id for message in stored}), len(stage.flights)),
        Check("throughput", _rate(published.acknowledged, published.seconds)),
    )


def consume_with_retry(stage: Stage) -> None:
    bad, wanted = stage.flights.bad_rows, len(stage.flights)
    consumed: set[int] = set()
    failures: dict[tuple[int, int], str] = {}
    deliveries, pace = 0, ThroughputMeter()
    dead_rows: set[int] = set()

    def take(event: object) -> None:
        nonlocal deliveries
        done = msgspec.convert(event, push_group.Deliveries)
        deliveries += len(done.consumed) + len(done.failed)
        consumed.update(done.consumed)
        for failure in done.failed:
            failures[failure.row, failure.reconsume_times] = failure.message_id
            if failure.reconsume_times >= push_group.MAX_RECONSUME_TIMES:
                dead_rows.add(failure.row)

    with stage.bar(f"push group, {_MEMBERS} members") as bar, Members(stage.logs) as members:
        for member in range(1, _MEMBERS + 1):
            options = push_group.PushMemberOptions(stage.target, member, _MEMBERS)
            members.start("sprocketmq.cli.demo.push_group", options, f"push-{member}")
        for event in members.events(_PATIENCE_S):
            take(event)
            pace.at(len(consumed))
            bar.advance(len(consumed) + len(dead_rows) - bar.done)
            bar.detail(f"{sum(1 for _, times in failures if times):,} retries, {len(dead_rows):,} given up")
            if len(consumed) + len(dead_rows) >= wanted:
                break
        # A bad record that was delivered twice during the rebalance has two retry copies: wait for both.
        for event in members.events(_STRAGGLERS_S):
            take(event)
        dead = _dead_letters(stage, push_group.GROUP, bar)
        for event in members.stop():
            take(event)
    retries = {(row, times) for row, times in failures if times > 0}
    ids = {(row, message_id) for (row, _), message_id in failures.items()}
    stage.findings.add(
        "push group",
        stage.findings.rows("flights consumed", consumed, set(range(wanted)) - bad),
        stage.findings.rows("flights that failed", {row for row, _ in failures}, bad),
        Check("retries", len(retries), push_group.MAX_RECONSUME_TIMES * len(bad)),
        Check("message ids of failed flights", len(ids), len(bad), _changed_ids(len(ids), len(bad))),
        stage.findings.rows("dead-lettered", set(dead), bad),
        Check("dead letters under the same message id", len(ids & set(dead.items())), len(bad)),
        Check("repeated deliveries", deliveries - len(consumed) - len(failures)),
        Check("throughput", pace.rate()),
        _lag(push_group.GROUP, stage),
    )


def consume_in_order(stage: Stage) -> None:
    rows: set[int] = set()
    repeated = inversions = 0
    pace = ThroughputMeter()
    with stage.bar("orderly group") as bar, Members(stage.logs) as members:
        options = orderly_group.OrderlyMemberOptions(stage.target)
        members.start("sprocketmq.cli.demo.orderly_group", options, "orderly")
        for event in members.events(_PATIENCE_S):
            seen = msgspec.convert(event, orderly_group.InOrder)
            rows.update(seen.rows)
            repeated, inversions = repeated + seen.repeated, inversions + seen.inversions
            pace.at(len(rows))
            bar.advance(len(rows) - bar.done)
            bar.detail(f"{inversions:,} inversions")
            if len(rows) >= len(stage.flights):
                break
        members.stop()
    stage.findings.add(
        "orderly group",
        stage.findings.rows("flights consumed", rows, set(range(len(stage.flights)))),
        Check("order inversions", inversions, 0),
        Check("repeated deliveries", repeated),
        Check("throughput", pace.rate()),
        _lag(orderly_group.GROUP, stage),
    )


@dataclass
class _Batches:
    count: int = 0
    good: int = 0
    sent_back: int = 0
    seconds: float = 0.0

    def take(self, event: object) -> None:
        batch = msgspec.convert(event, pipeline.Batch)
        self.count += 1
        self.good += batch.good
        self.sent_back += batch.bad
        self.seconds += batch.seconds


def run_pipeline(stage: Stage) -> None:
    import pandas as pd

    from sprocketmq.cli.demo.picture import draw_delays

    batches, dead = _watch_pipeline(stage)
    bad, wanted = stage.flights.bad_rows, len(stage.flights)
    flights = pd.read_parquet(stage.out / "flights.parquet", columns=["row"])["row"]
    delays = pd.read_parquet(stage.out / "delays.parquet")
    stage.findings.add(
        "Spark pipeline",
        stage.findings.rows("rows in Parquet", set(flights), set(range(wanted)) - bad),
        Check("of them more than once", len(flights) - flights.nunique(), 0),
        Check("rows sent back", batches.sent_back, (pipeline.MAX_RECONSUME_TIMES + 1) * len(bad)),
        stage.findings.rows("dead-lettered", set(dead), bad),
        *stage.findings.means(delays),
        Check("throughput", _rate(batches.good + batches.sent_back, batches.seconds)),
        _lag(pipeline.GROUP, stage),
    )
    departures = int(delays["flights"].sum())
    subtitle = (
        f"{departures:,} departures from New York City in 2013, by carrier and scheduled hour; "
        f"from topic {TOPIC} through Spark to Parquet"
    )
    draw_delays(delays, stage.out / "delays.png", subtitle)


def _watch_pipeline(stage: Stage) -> tuple[_Batches, dict[int, str]]:
    batches, wanted, topic = _Batches(), len(stage.flights), dlq_topic(pipeline.GROUP)
    bad = len(stage.flights.bad_rows)
    with stage.bar("Spark pipeline") as bar, Members(stage.logs) as members:
        bar.detail("starting Spark")
        options = pipeline.PipelineOptions(stage.target, str(stage.out))
        members.start("sprocketmq.cli.demo.pipeline", options, "spark")
        for event in members.events(_SPARK_PATIENCE_S):
            batches.take(event)
            dead_count = count_messages(stage.target, topic)
            bar.advance(batches.good + dead_count - bar.done)
            bar.detail(f"{batches.count} batches, {batches.sent_back:,} rows sent back, {dead_count:,} dead")
            ended = batches.good + bad >= wanted and batches.sent_back >= bad * (pipeline.MAX_RECONSUME_TIMES + 1)
            # A proxy remembers for a while that no topic has the dead letters.
            if batches.good + dead_count >= wanted or ended:
                break
        bar.detail(f"{batches.count} batches, {batches.sent_back:,} rows sent back; writing the means")
        for event in members.stop(timeout_s=_SPARK_PATIENCE_S):
            batches.take(event)
        dead = _dead_letters(stage, pipeline.GROUP, bar)
        bar.detail(f"{batches.count} batches, {batches.sent_back:,} rows sent back, {len(dead):,} dead")
        bar.advance(batches.good + len(dead) - bar.done)
    return batches, dead


def _dead_letters(stage: Stage, group: str, bar: Bar) -> dict[int, str]:
    """Row and message id of all dead letters of the group, when the expected number is there or no more arrive."""
    topic, wanted = dlq_topic(group), len(stage.flights.bad_rows)
    deadline_s, before = time.monotonic() + _DEAD_LETTER_PATIENCE_S, -1
    while (count := count_messages(stage.target, topic)) < wanted and time.monotonic() < deadline_s:
        if count != before:
            deadline_s, before = time.monotonic() + _DEAD_LETTER_PATIENCE_S, count
            bar.detail(f"{count:,} of {wanted:,} dead-lettered")
        time.sleep(0.2)
    return {_row(message.body): message.message_id for message in read_topic(stage.target, topic)}


def _lag(group: str, stage: Stage) -> Check:
    lag = ask_lag(group, TOPIC, stage.target)
    if isinstance(lag, str):
        return Check("lag, asked by another process", "unknown", 0, lag)
    return Check("lag, asked by another process", lag, 0)


_decode_flight: Final = msgspec.json.Decoder(FlightBody).decode


def _row(body: bytes) -> int:
    return _decode_flight(body).row


def _changed_ids(ids: int, flights: int) -> str:
    return f"{ids - flights:,} message ids changed from one delivery to the next" if ids > flights else ""


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f} messages/s" if count and seconds else "none"
