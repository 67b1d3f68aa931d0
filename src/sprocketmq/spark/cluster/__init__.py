"""The brokers as driver and tasks see them, and the query as a member of its group."""
