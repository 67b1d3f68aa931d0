"""Calling the user's listeners."""
