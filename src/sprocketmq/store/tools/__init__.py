"""Tools for a store directory: check, inspect."""
