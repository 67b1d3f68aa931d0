"""Requests of and about consumer groups."""
