# SPDX-License-Identifier: Apache-2.0
"""Consumers: push and pull, running, rebalanced, asked about themselves."""
