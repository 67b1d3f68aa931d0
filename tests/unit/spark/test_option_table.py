# SPDX-License-Identifier: Apache-2.0
"""Every option of the table: its default is what leaving it out means, a wrong value is one sentence in the table's own words, a misspelt
name is answered with the right one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.option_table import OPTION_OF, OPTIONS, OptionRow
from sprocketmq.spark.options.read_options import ReadOptions, read_options
from sprocketmq.spark.options.sink_options import SinkOptions, sink_options

ROOT = Path(__file__).parents[3]
BASE = {"namesrvAddr": "127.0.0.1:9876", "topic": "flights"}
# What an option needs beside it to make sense.
BESIDE = {
    "groupOffsetsFallback": {"startingOffsets": "group", "group": "delays"},
    "startingOffsetsByTimestampStrategy": {"startingTimestamp": "1700000000001"},
    "tlsAuthServer": {"tls": "true"},
    "settleTimeoutMs": {"delivery": "transactional", "group": "exact"},
    "onDecidedBatch": {"delivery": "transactional", "group": "exact"},
    "ledgerTopic": {"delivery": "transactional", "group": "exact"},
    "compressOverBytes": {"compressType": "zlib"},
    "maxReconsumeTimes": {"mode": "ack", "group": "delays"},
    "delayLevel": {"mode": "ack", "group": "delays"},
}
WRONG = {
    "name": ("a b", "späť", "a/b", "a:b"),
    "addresses": ("nohost", "host:", ":9876", "h:0", "h:65536", "h:x", "h:²", "h:1;", "http://h:9876", "h h:1", "h:1;:2"),
    "choice": ("", "all", "tru"),
    "flag": ("", "yes", "1", "tru"),
    "count": ("", "0", "-1", "1.5", "many", "²", str(2**63)),
    "duration": ("", "0", "-5s", "soon", "5 weeks", "1e3", "9" * 30),
    "time": ("", "yesterday", "-1", "2023-11-14T22:13:20", "2023-13-01T00:00:00Z", "9" * 20),
    "offsets": ("", "newest", "[]", "7", "{}", '{"flights":7}', '{"flights":{"b":{"0":"x"}}}', '{"flights":{"b":{"zero":1}}}',
                '{"flights":{"b":{"0":-3}}}', '{"flights":{"b":{"0":1.5}}}', '{"flights":{"b":{"0":true}}}', '{"flights"'),
}  # fmt: skip


def parse(row: OptionRow, value: str) -> ReadOptions | SinkOptions:
    """The option alone, beside what every read or write needs."""
    base = {"namesrvAddr": "127.0.0.1:9876"} if row.name == "deadLettersOf" else BASE
    options = {**base, **BESIDE.get(row.name, {}), row.name: value}
    return sink_options(options) if row.side == "write" else read_options(options, streaming=row.name[:3] != "end")


CASES = [(row, value) for row in OPTIONS for value in WRONG.get(row.kind, ())]


@pytest.mark.parametrize(("row", "value"), CASES, ids=[f"{row.name}={value[:20]}" for row, value in CASES])
def test_a_wrong_value_is_one_sentence_of_option_value_and_what_is_allowed(row: OptionRow, value: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse(row, value)
    sentence = str(error.value)
    assert sentence.startswith(f"{row.name} is {value!r}; allowed is {row.allowed}")
    assert "\n" not in sentence


@pytest.mark.parametrize("name", ["group", "deadLettersOf", "ledgerTopic"])
@pytest.mark.parametrize("value", ["", " ", "x" * 128])
def test_a_name_has_1_to_127_characters(name: str, value: str) -> None:
    row = OPTION_OF[name]
    with pytest.raises(ConfigurationError) as error:
        parse(row, value)
    assert str(error.value).startswith(f"{name} is {value!r}; allowed is {row.allowed}")


@pytest.mark.parametrize("row", [row for row in OPTIONS if row.choices], ids=lambda row: row.name)
def test_a_misspelt_word_is_answered_with_the_right_one(row: OptionRow) -> None:
    for word in row.choices:
        if len(word) > 3:
            with pytest.raises(ConfigurationError, match=f"; did you mean {word}\\?"):
                parse(row, word[:-1])


@pytest.mark.parametrize("row", OPTIONS, ids=lambda row: row.name)
def test_a_misspelt_name_is_answered_with_the_right_one_and_shows_no_value(row: OptionRow) -> None:
    misspelt = row.name[:-1] + "x" + row.name[-1]
    for parsed in (sink_options, lambda options: read_options(options, streaming=False)):
        with pytest.raises(ConfigurationError, match=f"did you mean {row.name}\\?") as error:
            parsed({**BASE, misspelt: "the value"})
        assert "the value" not in str(error.value)  # it may be a secret


@pytest.mark.parametrize(
    "row", [row for row in OPTIONS if row.kind in ("choice", "flag", "count", "duration")], ids=lambda row: row.name
)
def test_the_default_of_the_table_is_what_leaving_an_option_out_means(row: OptionRow) -> None:
    if not re.fullmatch(r"\d+(ms|s|m|h)?|true|false", row.default) and row.default not in row.choices:
        return  # words for people: it depends on other options, or there is none
    base = {**BASE, **BESIDE.get(row.name, {})}
    if row.side != "write":
        assert read_options(base, streaming=True) == read_options({**base, row.name: row.default}, streaming=True)
    if row.side != "read":
        assert sink_options(base) == sink_options({**base, row.name: row.default})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"startingTimestamp": "1700000000009", "endingTimestamp": "1700000000005"},
            "endingTimestamp is 1700000000005, which is before startingTimestamp 1700000000009",
        ),
        (
            {"startingOffsets": '{"flights":{"b":{"0":9}}}', "endingOffsets": '{"flights":{"b":{"0":5}}}'},
            "endingOffsets of flights/b/0 is 5, which is before startingOffsets 9",
        ),
        (
            {"startingOffsets": '{"flihgts":{"b":{"0":9}}}'},
            "startingOffsets names topic 'flihgts', which is not read; allowed is flights; did you mean flights?",
        ),
    ],
)
def test_options_against_each_other_are_one_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_options({**BASE, **options}, streaming=False)
    assert str(error.value).startswith(sentence)
