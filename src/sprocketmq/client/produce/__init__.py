# SPDX-License-Identifier: Apache-2.0
"""Sending: one by one, in batches, in transactions, with a reply."""
