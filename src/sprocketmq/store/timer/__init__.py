"""Messages that are due at a time of their own: log and wheel."""
