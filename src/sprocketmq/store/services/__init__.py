# SPDX-License-Identifier: Apache-2.0
"""Background work on log, queues and index: dispatch, flush, retention."""
