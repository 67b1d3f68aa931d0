"""A query looked at: progress, losses."""
