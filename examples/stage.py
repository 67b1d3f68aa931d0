# SPDX-License-Identifier: Apache-2.0
"""What the Spark examples share: arguments, a session, and a broker if none is named.

It is not part of a pipeline: copy only the function ``run`` of an example into your job.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import sprocketmq as rmq
from sprocketmq.errors import RocketMQError
from sprocketmq.testing import EmbeddedRocketMQ


def arguments(paragraph: str | None, rows: int | None = 2_000) -> argparse.ArgumentParser:
    """The arguments of every example; add further ones. ``rows``: None if the number of messages cannot be chosen."""
    parser = argparse.ArgumentParser(description=paragraph, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--namesrv-addr", metavar="HOST:PORT", help="your name servers; without it a broker comes and goes with the run"
    )
    if rows is not None:
        parser.add_argument("--rows", type=count, help=f"how many flights that broker gets ({rows})")
        parser.set_defaults(own_rows=rows)
    return parser


def count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of flights; a whole number from 1 is")
    return int(text)


@contextmanager
def stage(
    parser: argparse.ArgumentParser, publish: Callable[[argparse.Namespace], object]
) -> Iterator[tuple[SparkSession, argparse.Namespace]]:
    """A session and the arguments. If no broker is named, one is started and filled by ``publish``. Ctrl-C and errors stop everything in
    order; an error is printed as one sentence.

    Without the argument, ``given.out`` is a temporary folder.
    """
    given = parser.parse_args()
    if "own_rows" in given:
        if given.namesrv_addr and given.rows:
            parser.error("--rows is for the broker that comes with the run; leave it out with --namesrv-addr")
        given.rows = given.rows or given.own_rows
    with ExitStack() as stack:
        try:
            given.own = given.namesrv_addr is None
            if given.own:
                # Time for half messages before the broker's first check-back: a first batch takes seconds on a cold machine.
                mq = stack.enter_context(EmbeddedRocketMQ(clock="system", transactionTimeOut=600_000))
                given.namesrv_addr = mq.namesrv_addr
                publish(given)
            else:
                with rmq.Admin(namesrv_addr=given.namesrv_addr) as admin:
                    admin.topics()  # fail at once if there is no server, and not in Spark's processes
            if getattr(given, "out", "") is None:
                given.out = stack.enter_context(TemporaryDirectory(prefix="sprocketmq-"))
            spark = session(Path(sys.argv[0]).stem)
            stack.callback(stop, spark)
            yield spark, given
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            sys.exit(130)
        except (RocketMQError, OSError) as error:
            sys.exit(f"error: {error}")
        except PySparkException as error:
            sys.exit(f"error: {last_words(error)}")
        except Py4JJavaError as error:  # errors without a class in Spark, such as a folder that cannot be created
            sys.exit(f"error: {error.java_exception.getMessage()}")


def last_words(error: PySparkException) -> str:
    """The message of an error, without the tracebacks of the processes through which it passed."""
    text = str(error).split("\n=== Streaming Query ===")[0].split(" SQLSTATE: ")[0]
    last = text.strip().splitlines()[-1]
    return last.partition(": ")[2] if last.startswith("sprocketmq.errors.") else last


def session(name: str) -> SparkSession:
    """The session of spark-submit, or a local one with all cores."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers need this package, too
    spark = (
        SparkSession.builder.appName(name)
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")  # the default, 200, is for much larger tables
        .getOrCreate()
    )
    # Spark's own handler cancels the running job with a long traceback; `stop` stops the queries in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return spark


def stop(spark: SparkSession) -> None:
    for query in spark.streams.active:
        query.stop()
    spark.stop()


def wait(query: StreamingQuery) -> bool:
    """Wait until the query has ended, and print each batch; False after Ctrl-C, which is handled between two checks and not in a call into
    the JVM."""
    printed = -1
    try:
        while query.isActive:
            printed = print_batch(query, printed)
            time.sleep(0.2)
    except KeyboardInterrupt:
        query.stop()
        print("stopped; the same command goes on from here, if its folder was named")
        return False
    print_batch(query, printed)
    query.awaitTermination()  # raises the error of a failed query
    return True


def print_batch(query: StreamingQuery, printed: int) -> int:
    """Print the newest batch if it is later than ``printed``, and return its number."""
    progress = query.lastProgress
    if progress is None or progress.batchId <= printed:
        return printed
    if progress.numInputRows:
        print(
            f"batch {progress.batchId}: {progress.numInputRows:,} rows in {progress.batchDuration / 1000:.1f} s",
            flush=True,
        )
    return int(progress.batchId)


def publish_flights(namesrv_addr: str, rows: int) -> None:
    """The flights of `make demo`: JSON bodies, tag carrier, key tail number, those of one plane in one queue. Cancelled ones have no
    dep_time."""
    from sprocketmq.cli.demo.flights import load_flights
    from sprocketmq.cli.demo.publish import publish

    asyncio.run(publish(load_flights(rows), namesrv_addr=namesrv_addr))
