# SPDX-License-Identifier: Apache-2.0
"""Finds out why a consumer group makes no progress: what can be observed of it, and one verdict."""
