# SPDX-License-Identifier: Apache-2.0
"""``delivery=transactional``: half messages, the ledger of decisions, and the end of half messages."""
