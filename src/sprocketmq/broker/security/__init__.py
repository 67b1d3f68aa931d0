"""Access control, and the check of names in requests."""
