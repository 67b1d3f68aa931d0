# SPDX-License-Identifier: Apache-2.0
import sprocketmq.logs  # noqa: F401 - escapes text of peers in log lines
