# SPDX-License-Identifier: Apache-2.0
"""How soon a consumer behind Apache's proxy has its first message, and a failed message comes again: ours and Java's, in turns.

    python bench/proxy_bench.py --rounds 5 [--apache 5.5.0]

A round makes a topic with one message and starts a new group of each client. "First message" is from the start of the consumer's client to
its listener. "First retry" is from a failure that asks for a second (delay level 1) to the listener again: of a group that has never failed
before, so its retry topic is new.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

import sprocketmq as rmq  # noqa: E402
from interop.peers import (  # noqa: E402
    APACHE_5,
    ApacheCluster,
    ApacheProxy,
    JavaProgram,
    unwind_on_sigterm,
)

FIRST: Final = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
DELAY_LEVEL_1_S: Final = 1.0
PATIENCE_S: Final = 120.0
Times = tuple[float, float]  # until the first message, and until its retry beyond the delay


def ours(proxy: ApacheProxy, topic: str, group: str) -> Times:
    came: list[float] = []
    again = threading.Event()

    def fail_once(message: rmq.MessageExt) -> None:
        came.append(time.monotonic())
        if message.reconsume_times == 0:
            raise rmq.RetryLater(delay_level=1)
        again.set()

    consumer = rmq.PushConsumer(group, namesrv_addr=proxy.namesrv_addr, consume_from_where=FIRST, instance_name=group)
    consumer.subscribe(topic)
    consumer.on_message(fail_once)
    began = time.monotonic()
    with consumer:
        assert again.wait(PATIENCE_S), "no retry came"
    return came[0] - began, came[-1] - came[0] - DELAY_LEVEL_1_S


def java(proxy: ApacheProxy, topic: str, group: str) -> Times:
    began = time.monotonic()
    run = JavaProgram(
        proxy.version, "PushConsumer", namesrv=proxy.namesrv_addr, topic=topic, group=group, fail=1, delay_level=1
    )
    with run:
        run.read_events("message", 1, PATIENCE_S)
        first = time.monotonic()
        run.read_events("message", 1, PATIENCE_S)
        return first - began, time.monotonic() - first - DELAY_LEVEL_1_S


CLIENTS: Final[dict[str, Callable[[ApacheProxy, str, str], Times]]] = {"ours": ours, "Java": java}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--apache", default=APACHE_5)
    args = parser.parse_args()
    unwind_on_sigterm()
    found: dict[str, list[Times]] = {name: [] for name in CLIENTS}
    with ApacheCluster(args.apache) as cluster, ApacheProxy(cluster) as proxy:
        for number in range(-1, args.rounds):  # the first round warms both up
            for name, measure in CLIENTS.items():
                topic = f"{name}-{number + 1}"
                proxy.create_topic(topic, 4)
                with rmq.Producer("bench", namesrv_addr=proxy.namesrv_addr) as producer:
                    producer.send(rmq.Message(topic, b"x"))
                times = measure(proxy, topic, f"group-{topic}")
                print(
                    f"{name:5} first message {times[0]:7.3f} s   first retry {times[1]:7.3f} s beyond its delay",
                    flush=True,
                )
                if number >= 0:
                    found[name].append(times)
    for title, place in (("first message", 0), ("first retry beyond its delay", 1)):
        mine, theirs = (statistics.median(times[place] for times in found[name]) for name in ("ours", "Java"))
        most = max(times[place] for times in found["ours"])
        print(f"{title}: median {mine:.3f} s, at most {most:.3f} s; Java {theirs:.3f} s; ratio {theirs / mine:.1f}")


if __name__ == "__main__":
    main()
