# SPDX-License-Identifier: Apache-2.0
"""What a process logs of ten minutes of trouble: few lines, which say where and what goes on, and nothing for each queue, topic or group.

A warning in a loop, a timer or a retry breaks the budget; tell it to ``sprocketmq.troubles.Troubles``."""

from __future__ import annotations

from typing import Final

import pytest

from inproc.client.log_drill import TROUBLES, Drill, Size, expired_certificate

LINES: Final = 30  # of ten minutes, for each process
QUICK: Final = Size(topics=2, queues=4, groups=2, minutes=1.1, before_ms=15_000, after_ms=150_000)
QUICK_LINES: Final = 10
# What a stranger must find, by process.
SAID: Final = {
    "killed": {
        "shop": ["broker broker-a (10.0.0.2:10911) is lost, its messages wait, other brokers go on", "is back after"],
        "namesrv": ["broker broker-a at 10.0.0.2:10911 closed its connection", "is registered again after"],
    },
    "without power": {
        "shop": ["broker broker-a (10.0.0.2:10911) is lost, its messages wait, other brokers go on", "is back after"],
        "namesrv": ["was silent for 120000 ms", "is registered again after"],
    },
    "frozen": {
        "shop": ["broker broker-a (10.0.0.2:10911) is lost, its messages wait, other brokers go on", "is back after"],
        "namesrv": ["was silent for 120000 ms", "is registered again after"],
    },
    "name server away": {
        "shop": ["name server namesrv:9876 is lost, known topics go on", "is back after"],
        "broker-a": ["does not know broker broker-a now, clients that know it go on", "knows broker broker-a now after"],
    },
    "disk full": {
        "broker-a": ["sends are refused, pulls go on: the disk of", "sends are taken again after"],
    },
    "account revoked": {
        "shop": ["no account has the access key Worker77; check access_key and secret_key", "ago, after"],
        "broker-a": ["no account has the access key Worker77", "ago, after"],
    },
    "listeners raise": {
        "shop": ["the listener raised LookupError: no row 0", "more since the last line", "ago, after"],
    },
}  # fmt: skip


def check(trouble: str, size: Size, most: int) -> None:
    drill = Drill(size, trouble).run()
    for host, lines in drill.lines.items():
        assert len(lines) <= most, f"{host} logged {len(lines)} lines:\n" + "\n".join(map(str, lines))
    for host, sentences in SAID[trouble].items():
        text = "\n".join(map(str, drill.lines[host]))
        for sentence in sentences:
            assert sentence in text, f"{host} does not say {sentence!r}:\n{text}"


@pytest.mark.parametrize("trouble", ["name server away", "account revoked", "listeners raise"])
def test_a_minute_of_a_trouble_is_a_few_lines(trouble: str) -> None:
    check(trouble, QUICK, QUICK_LINES)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", TROUBLES)
def test_ten_minutes_of_a_trouble_are_no_more_lines_with_more_queues_topics_and_groups(trouble: str) -> None:
    check(trouble, Size(topics=6, queues=16, groups=3), LINES)


@pytest.mark.slow
def test_ten_minutes_of_a_certificate_that_has_expired_are_a_few_lines() -> None:
    lines = expired_certificate(Size(topics=2, queues=2, groups=2))
    for name, texts in lines.items():
        assert len(texts) <= LINES, f"{name} logged {len(texts)} lines:\n" + "\n".join(map(str, texts))
    said = {name: "\n".join(map(str, texts)) for name, texts in lines.items()}
    assert "certificate has expired" in said["client"]
    assert said["client"].count("is back after") == 2
    assert "clients that check it refuse this server, renew it" in said["servers"]
    assert "the TLS handshake with 127.0.0.1 failed" in said["servers"]
