# SPDX-License-Identifier: Apache-2.0
"""At most one line a minute; each line counts the events before it that were not logged."""

from __future__ import annotations

import logging

from sprocketmq.net.rate_limited_log import RateLimitedLog


def test_the_first_event_is_logged_at_once_and_the_others_once_a_minute(caplog):
    limited = RateLimitedLog(logging.getLogger("sprocketmq.test"))
    with caplog.at_level(logging.WARNING):
        for second in range(121):
            limited.log(second, "peer %s is refused", second)
    assert [record.getMessage() for record in caplog.records] == [
        "peer 0 is refused",
        "peer 60 is refused (59 more since the last such line)",
        "peer 120 is refused (59 more since the last such line)",
    ]
    assert limited.count == 121
