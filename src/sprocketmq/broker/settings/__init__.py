"""What may be set, where it is kept, and what changes while it runs."""
