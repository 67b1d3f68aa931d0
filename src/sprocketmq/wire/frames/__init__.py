"""Frames of the protocol: cutting, reading, writing, signing."""
