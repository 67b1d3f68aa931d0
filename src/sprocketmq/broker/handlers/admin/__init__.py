# SPDX-License-Identifier: Apache-2.0
"""Requests of administrators and of other brokers."""
