"""Bytes that wait for a peer."""
