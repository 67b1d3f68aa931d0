"""Conversion of pulled records into Arrow columns."""
