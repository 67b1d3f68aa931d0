"""Options of clients: what may be given, and what it becomes."""
