# SPDX-License-Identifier: Apache-2.0
"""The pytest fixture ``rocketmq``: an embedded RocketMQ of the test's own, on a clock that the test moves.

    @pytest.mark.rocketmq(clock="system", messageDelayLevel="1s 2s")     # what EmbeddedRocketMQ takes
    def test_in_real_time(rocketmq): ...

Every pytest run on a machine that has the package imports this module, so it imports nothing from the package until it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sprocketmq.testing.embedded import EmbeddedRocketMQ


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "rocketmq(**options): options of the rocketmq fixture, as EmbeddedRocketMQ takes them"
    )


@pytest.fixture
def rocketmq(request: pytest.FixtureRequest) -> Iterator[EmbeddedRocketMQ]:
    """A started :class:`~sprocketmq.testing.EmbeddedRocketMQ`, stopped after the test; memory store and manual clock unless marked."""
    from sprocketmq.errors import ConfigurationError
    from sprocketmq.testing.embedded import EmbeddedRocketMQ

    options = {}
    for mark in reversed(list(request.node.iter_markers("rocketmq"))):  # the mark nearest to the test wins
        if mark.args:
            raise ConfigurationError(
                f"the mark rocketmq is given {mark.args[0]!r}; options by name are allowed, as in clock='system'"
            )
        options.update(mark.kwargs)
    with EmbeddedRocketMQ(**options) as embedded:
        yield embedded
