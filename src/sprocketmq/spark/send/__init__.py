# SPDX-License-Identifier: Apache-2.0
"""Rows as messages, and sending them."""
