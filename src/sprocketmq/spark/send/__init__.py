"""Rows as messages, and sending them."""
