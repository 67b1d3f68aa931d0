"""One line a minute, whatever happens, and none is forgotten."""

from __future__ import annotations

import logging

import pytest

from sprocketmq.net.calm_log import CalmLog


def test_the_first_is_told_at_once_and_the_others_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    calm = CalmLog(logging.getLogger("sprocketmq.test"))
    with caplog.at_level(logging.WARNING):
        for second in range(121):
            calm.tell(second, "peer %s is refused", second)
    assert [record.getMessage() for record in caplog.records] == [
        "peer 0 is refused",
        "peer 60 is refused (59 more since the last such line)",
        "peer 120 is refused (59 more since the last such line)",
    ]
    assert calm.count == 121
