# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import logging
import sys

import pytest

from sprocketmq.cli.serve.log_lines import JsonLines, LogRateLimiter, set_up_logging
from sprocketmq.errors import ConfigurationError


def test_a_json_line_holds_time_level_logger_message_and_what_was_added(capsys):
    set_up_logging("info", "json")
    logging.getLogger("sprocketmq.broker").warning("slow %s", "send", extra={"request_code": 10})
    line = json.loads(capsys.readouterr().err)
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "WARNING", "logger": "sprocketmq.broker", "message": "slow send", "request_code": 10}


def test_an_exception_stays_on_one_line():
    try:
        raise OSError("disk gone")
    except OSError:
        record = logging.LogRecord("x", logging.ERROR, "f.py", 1, "failed", None, sys.exc_info())
    text = JsonLines().format(record)
    assert "\n" not in text
    assert "disk gone" in json.loads(text)["exception"]


@pytest.mark.parametrize(("level", "log_format"), [("loud", "text"), ("info", "xml")])
def test_an_unknown_level_or_format_is_named_with_what_is_allowed(level, log_format):
    with pytest.raises(ConfigurationError, match=r"is '(loud|xml)', one of .* is allowed"):
        set_up_logging(level, log_format)


def test_of_a_thousand_lines_from_one_place_sixty_a_minute_pass_and_the_next_one_counts_the_others():
    measure = LogRateLimiter()

    def passed(second: float, line: int = 1) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "f.py", line, "peer %d", (second,), None)
        record.created = 1000 + second
        return record.getMessage() if measure.filter(record) else None

    shown = [text for text in map(passed, [n * 0.05 for n in range(1000)]) if text]
    assert len(shown) == 60
    assert passed(50, line=2) == "peer 50", "another place has its own measure"
    assert passed(61) == "peer 61 (940 more like it were left out)"
    assert passed(62) == "peer 62"


def test_a_message_that_a_peer_made_long_is_cut(capsys):
    set_up_logging("warning")
    logging.getLogger("sprocketmq").warning("group %s is not taken", "x" * 100_000)
    line = capsys.readouterr().err
    assert len(line) < 2_100
    assert "... (100019 characters)" in line
