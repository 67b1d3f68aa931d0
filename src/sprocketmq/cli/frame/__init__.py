"""What all commands have in common: how they are found, where they go and as whom, what they print, and what they ask before a change."""
