# SPDX-License-Identifier: Apache-2.0
"""The troubles of this process: a driver with all of its queries, or a worker of Python, in which Spark runs one task after the other."""

from __future__ import annotations

import logging
from typing import Final

from sprocketmq.troubles import Troubles

troubles: Final = Troubles(logging.getLogger("sprocketmq.spark"))
