"""What a broker keeps in addition to the log: topics, groups, offsets, members."""
