"""Consumers: push and pull, running, rebalanced, asked about themselves."""
