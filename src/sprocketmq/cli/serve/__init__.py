"""Servers in the foreground, with their settings and log lines."""
