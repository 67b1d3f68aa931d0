"""Settings, where they are stored, and changes while the broker runs."""
