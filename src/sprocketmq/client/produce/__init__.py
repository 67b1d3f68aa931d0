"""Sending: one by one, in batches, in transactions, with a reply."""
