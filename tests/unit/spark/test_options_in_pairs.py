# SPDX-License-Identifier: Apache-2.0
"""Every pair of options, each right by itself: either they go together, or one sentence names both; and which pairs do not is all written
down here, so that no pair begins or ceases to be refused by accident."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Final, Literal

import pytest

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.option_table import OPTIONS, OptionRow
from sprocketmq.spark.options.read_options import read_options
from sprocketmq.spark.options.sink_options import sink_options

Use = Literal["batch", "stream", "write"]

# A value that is right, and that means something other than the default. What is not here stands in the table.
VALUES: Final = {
    "namesrvAddr": "h:1", "topic": "flights", "topics": "flights", "topicsPattern": "flights", "group": "delays",
    "deadLettersOf": "delays", "tags": "UA", "sql92": "a > 1", "startingTimestamp": "1700000000001", "endingTimestamp": "1700000000002",
    "startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"flights":{"b":{"0":1700000000001}}}',
    "endingOffsets": "latest", "endingOffsetsByTimestamp": '{"flights":{"b":{"0":1700000000002}}}', "columns": "body",
    "acceptedSendStatus": "SLAVE_NOT_AVAILABLE", "retiredBrokers": "broker-b",
    "ledgerTopic": "decisions", "txnAppId": "loads", "txnVersion": "1", "accessKey": "me", "secretKey": "k", "securityToken": "t",
    "tlsTrustCertPath": "ca.pem", "tlsCertPath": "cert.pem", "tlsKeyPath": "key.pem", "tlsKeyPassword": "p",
}  # fmt: skip
# What an option needs beside it; both of a pair bring theirs, and one that is asked for itself wins.
NEEDS: Final = {
    "groupOffsetsFallback": {"startingOffsets": "group", "group": "delays"},
    "startingOffsetsByTimestampStrategy": {"startingTimestamp": "1700000000001"},
    "includeRetry": {"group": "delays"},
    "waitForRetries": {"includeRetry": "true", "group": "delays"},
    "commitOffsets": {"group": "delays"},
    "delivery": {"group": "exact"},
    "ledgerTopic": {"delivery": "transactional", "group": "exact"},
    "settleTimeoutMs": {"delivery": "transactional", "group": "exact"},
    "onDecidedBatch": {"delivery": "transactional", "group": "exact"},
    "txnAppId": {"delivery": "transactional", "group": "exact", "txnVersion": "1"},
    "txnVersion": {"delivery": "transactional", "group": "exact", "txnAppId": "loads"},
    "onError": {"group": "delays"},
    "compressOverBytes": {"compressType": "zlib"},
    "maxReconsumeTimes": {"mode": "ack", "group": "delays"},
    "delayLevel": {"mode": "ack", "group": "delays"},
    "accessKey": {"secretKey": "k"},
    "secretKey": {"accessKey": "me"},
    "securityToken": {"accessKey": "me", "secretKey": "k"},
    "tlsAuthServer": {"tls": "true"},
    "tlsTrustCertPath": {"tls": "true"},
    "tlsCertPath": {"tls": "true"},
    "tlsKeyPath": {"tls": "true", "tlsCertPath": "cert.pem"},
    "tlsKeyPassword": {"tls": "true", "tlsCertPath": "cert.pem"},
}
TOPICS: Final = ("topic", "topics", "topicsPattern", "deadLettersOf")


def value_of(row: OptionRow, folder: Path) -> str:
    if row.name == "secretKeyFile":
        file = folder / "keys"
        file.write_text("accessKey: me\nsecretKey: k\n")
        return str(file)
    if row.choices:
        return next(word for word in reversed(row.choices) if word != row.default)
    return VALUES.get(row.name) or {"count": "7", "duration": "7s"}[row.kind]


def refused(use: Use, given: dict[str, str]) -> str:
    """The sentence, or nothing. Any other exception is a bug."""
    base = {"namesrvAddr": "h:1"} if given.keys() & set(TOPICS) else {"namesrvAddr": "h:1", "topic": "flights"}
    try:
        if use == "write":
            sink_options({**base, **given})
        else:
            read_options({**base, **given}, streaming=use == "stream")
    except ConfigurationError as error:
        return str(error)
    return ""


def given_for(rows: tuple[OptionRow, ...], folder: Path) -> dict[str, str]:
    given: dict[str, str] = {}
    for row in rows:
        given.update(NEEDS.get(row.name, {}))
    given.update({row.name: value_of(row, folder) for row in rows})
    if any(row.name == "secretKeyFile" for row in rows) and not any(row.name == "secretKey" for row in rows):
        given.pop("secretKey", None)
    return given


def rows_of(use: Use) -> list[OptionRow]:
    side = "write" if use == "write" else "read"
    return [
        row for row in OPTIONS if row.side in (side, "both") and not (use == "stream" and row.name.startswith("ending"))
    ]


STARTS: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
READ_PAIRS: Final = {
    *combinations(TOPICS, 2),
    *combinations(STARTS, 2),
    ("tags", "sql92"),
    ("columns", "includeProperties"),
    ("deadLettersOf", "includeRetry"),
    ("deadLettersOf", "waitForRetries"),
    # one of them begins with the group, the other elsewhere
    *((start, "groupOffsetsFallback") for start in STARTS),
    ("groupOffsetsFallback", "startingOffsetsByTimestampStrategy"),
    ("startingOffsets", "startingOffsetsByTimestampStrategy"),
    ("startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
    ("deadLettersOf", "startingOffsetsByTimestamp"),  # which is of the topic flights
}
BATCH_PAIRS: Final = {*combinations(ENDS, 2), ("deadLettersOf", "endingOffsetsByTimestamp")}
WRITE_PAIRS: Final = {
    ("mode", "delivery"),
    *(("mode", name) for name in ("ledgerTopic", "txnAppId", "txnVersion", "settleTimeoutMs", "onDecidedBatch", "maxReconsumeTimes",
                                "delayLevel")),
    *((name, "acceptedSendStatus") for name in ("delivery", "ledgerTopic", "txnAppId", "txnVersion", "settleTimeoutMs", "onDecidedBatch")),
    *(("acceptedSendStatus", name) for name in ("maxReconsumeTimes", "delayLevel")),
    *((one, other) for one in ("ledgerTopic", "txnAppId", "txnVersion", "settleTimeoutMs", "onDecidedBatch", "delivery")
      for other in ("maxReconsumeTimes", "delayLevel")),
    ("mode", "maxDelayLevel"),
    *((one, other) for one in ("maxReconsumeTimes", "delayLevel")
      for other in ("onError", "maxMessageBytes", "maxDelayLevel", "compressType", "compressOverBytes")),
    *(("maxDelayLevel", name) for name in ("delivery", "ledgerTopic", "txnAppId", "txnVersion", "settleTimeoutMs", "onDecidedBatch")),
}  # fmt: skip
BOTH_PAIRS: Final = {("secretKey", "secretKeyFile")}
EXCLUDED: Final[dict[Use, set[tuple[str, str]]]] = {
    "batch": READ_PAIRS | BATCH_PAIRS | BOTH_PAIRS,
    "stream": READ_PAIRS | BOTH_PAIRS,
    "write": WRITE_PAIRS | BOTH_PAIRS,
}


@pytest.mark.parametrize("use", ["batch", "stream", "write"])
def test_each_option_is_right_by_itself(use: Use, tmp_path: Path) -> None:
    assert {row.name: said for row in rows_of(use) if (said := refused(use, given_for((row,), tmp_path)))} == {}


def edges_of(row: OptionRow) -> tuple[str, ...]:
    if row.choices:
        return row.choices
    return {"count": ("1", str(row.at_most)), "duration": ("1ms", "24d")}.get(row.kind, ())


@pytest.mark.parametrize("use", ["batch", "stream", "write"])
def test_an_edge_of_an_option_beside_all_defaults_is_taken_or_the_sentence_names_the_option_in_the_way(
    use: Use,
) -> None:
    """A refusal of an edge that the table allows has another option's name in it, or the word that makes it right."""
    names = {row.name for row in rows_of(use)}
    for row in rows_of(use):
        for edge in edges_of(row):
            sentence = refused(use, {row.name: edge})
            named = {name for name in names - {row.name} if re.search(rf"\b{name}\b", sentence)}
            assert not sentence or named, sentence


@pytest.mark.parametrize("use", ["batch", "stream", "write"])
def test_a_pair_goes_together_or_is_refused_in_one_sentence_that_names_both(use: Use, tmp_path: Path) -> None:
    found = set()
    for one, other in combinations(rows_of(use), 2):
        sentence = refused(use, given_for((one, other), tmp_path))
        if sentence:
            found.add(frozenset((one.name, other.name)))
            assert re.fullmatch(r"[^\n]+(; [^\n]*(keep|leave|set|use)|only|allowed is) [^\n]+", sentence), sentence
    assert found == {frozenset(pair) for pair in EXCLUDED[use]}
