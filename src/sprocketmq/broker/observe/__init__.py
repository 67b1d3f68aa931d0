"""Counters, statistics, metrics, slow requests."""
