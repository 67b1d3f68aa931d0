"""Rows as messages, and how they are sent."""
