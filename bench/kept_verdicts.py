# SPDX-License-Identifier: Apache-2.0
"""The cost of keeping the verdicts of a batch (docs/decisions/0025-verdicts-in-the-checkpoint.md): ``foreach_batch`` compared with the same
work with ``persist()`` in place of the checkpoint, in turns on the same rows in one batch of one stream.

    .venv/bin/python bench/kept_verdicts.py --rows 100000 --rounds 5
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

from spark_session import spark_session  # noqa: E402
from sprocketmq import Message  # noqa: E402
from sprocketmq.spark import foreach_batch  # noqa: E402
from sprocketmq.spark.retry.verdict_store import VerdictStore  # noqa: E402
from sprocketmq.testing import EmbeddedRocketMQ  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sprocketmq.spark.retry.row_retry import RowRetry

BODY: Final = b"UA1545 N14228 EWR IAH 5:17 2 8:30 11 1400".ljust(100)
STEPS: Final = ("_journal_of_batch", "load", "save", "_check", "complete")


def judge(rows: DataFrame, batch_id: int) -> DataFrame:
    """A judge for which one row of a hundred is bad."""
    return rows.selectExpr("*", "pmod(queueOffset, 100) = 7 AS failed")


class Turns:
    """A function for foreachBatch: each round runs both ways with the rows of the batch.

    Attributes:
        took_s: way, or step of it -> seconds of each round.
    """

    def __init__(self, namesrv_addr: str, folder: str, rounds: int) -> None:
        self._namesrv_addr, self._folder, self._rounds = namesrv_addr, folder, rounds
        self.took_s: defaultdict[str, list[float]] = defaultdict(list)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        for at in range(-1, self._rounds):  # the first round warms up
            ways = [("kept", self._kept), ("persisted", self._persisted)]
            for way, run in ways if at % 2 else reversed(ways):
                run(rows, batch_id, self._retry(f"{way}-{at}"))
            if at < 0:
                self.took_s.clear()

    def _retry(self, name: str) -> RowRetry:
        def write(good: DataFrame, batch_id: int) -> None:
            good.write.mode("overwrite").parquet(f"{self._folder}/good")

        return foreach_batch(
            judge, write=write, group="bench", namesrv_addr=self._namesrv_addr, name=name, check_source=False
        )

    def _kept(self, rows: DataFrame, batch_id: int, retry: RowRetry) -> None:
        self.timed("kept", retry)(rows, batch_id)

    def _persisted(self, rows: DataFrame, batch_id: int, retry: RowRetry) -> None:
        def run() -> None:
            judged = retry._judged(rows, batch_id).persist()
            try:
                bad = retry._bad_rows(judged)
                retry._write(judged.where(~retry._is_bad(judged)).drop("failed"), batch_id)
                retry._send_back(judged, bad, batch_id)
            finally:
                judged.unpersist()

        self.timed("persisted", run)()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*given: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return function(*given)
            finally:
                self.took_s[name].append(time.perf_counter() - began_s)

        return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kept-") as folder, EmbeddedRocketMQ(clock="system") as mq:
        mq.create_topic("flights", queues=4)
        with mq.producer(send_msg_timeout_ms=60_000) as producer:
            for at in range(0, args.rows, 250):
                producer.send_batch([Message("flights", BODY, keys=f"k{at}") for _ in range(min(250, args.rows - at))])
        spark = spark_session("kept-verdicts", f"{folder}/warehouse")
        turns = Turns(mq.namesrv_addr, folder, args.rounds)
        for step in STEPS:
            setattr(VerdictStore, step, turns.timed(step, getattr(VerdictStore, step)))
        stream = spark.readStream.format("rocketmq").options(
            namesrvAddr=mq.namesrv_addr, topic="flights", startingOffsets="earliest"
        )
        query = stream.load().writeStream.foreachBatch(turns).option("checkpointLocation", f"{folder}/checkpoint")
        query.trigger(availableNow=True).start().awaitTermination()
        spark.stop()
    ratios = [kept / other for kept, other in zip(turns.took_s["kept"], turns.took_s["persisted"], strict=True)]
    print(f"{args.rows} rows, {args.rounds} rounds; kept / persisted: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(f"median of the ratios: {statistics.median(ratios):.2f}")
    for name, seconds in turns.took_s.items():
        print(f"{name:>18}: {statistics.median(seconds):.3f} s")


if __name__ == "__main__":
    main()
