"""What a broker remembers beside the log: topics, groups, offsets, members."""
