# SPDX-License-Identifier: Apache-2.0
"""A process keeps its troubles; each test begins without any."""

from __future__ import annotations

import pytest

from sprocketmq.spark.troubles import troubles


@pytest.fixture(autouse=True)
def no_troubles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "_open", {})
