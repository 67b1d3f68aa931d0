"""Rows that failed: sent back, or copied to the dead letters, with the verdicts kept."""
