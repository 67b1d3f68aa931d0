# SPDX-License-Identifier: Apache-2.0
"""Pulling messages from brokers."""
