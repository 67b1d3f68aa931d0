"""Which queue a message goes to, and what goes together in one request."""
