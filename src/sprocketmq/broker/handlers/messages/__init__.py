"""Requests that store, read or move messages."""
