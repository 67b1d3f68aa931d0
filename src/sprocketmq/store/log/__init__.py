"""The commit log and its records."""
