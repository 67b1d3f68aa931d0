# SPDX-License-Identifier: Apache-2.0
"""Progress, lag and losses of a query: reports and metrics."""
