# SPDX-License-Identifier: Apache-2.0
"""Counters, statistics, metrics, slow requests."""
