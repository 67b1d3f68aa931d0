"""Requests of consumer groups, and about them."""
