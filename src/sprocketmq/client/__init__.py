# SPDX-License-Identifier: Apache-2.0
import sprocketmq.logs  # noqa: F401 - its loggers tell what peers say in one line
