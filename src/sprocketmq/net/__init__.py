# SPDX-License-Identifier: Apache-2.0
"""The only package with sockets, event loops and the clock. One asyncio engine serves the asynchronous and the blocking classes."""

import sprocketmq.logs  # noqa: F401 - escapes text of peers in log lines
