# SPDX-License-Identifier: Apache-2.0
"""What the tests with sockets, processes and Spark share: clients of theirs have threads, too."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def modules_are_loaded_before_threads_need_them(every_module_is_loaded: None) -> None:
    pass
