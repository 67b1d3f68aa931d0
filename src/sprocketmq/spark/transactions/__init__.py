"""``delivery=transactional``: half messages, the ledger of decisions, and the end of half messages."""
