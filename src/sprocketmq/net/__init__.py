# SPDX-License-Identifier: Apache-2.0
"""The only place with sockets, event loops and the clock. One asyncio engine serves the async and the blocking world."""

import sprocketmq.logs  # noqa: F401 - escapes text of peers in log lines
