"""Frames of the protocol: cut, read, made, signed."""
