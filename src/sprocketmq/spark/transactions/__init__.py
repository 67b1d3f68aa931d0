"""Rows that are written exactly once: half messages, the ledger of decisions, settling."""
