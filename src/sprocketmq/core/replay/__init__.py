"""A client's decisions, recorded and gone through again."""
