"""A client's decisions, recorded and run again."""
