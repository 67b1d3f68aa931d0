"""Pulling messages from brokers."""
