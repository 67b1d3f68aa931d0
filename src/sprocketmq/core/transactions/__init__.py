"""Half messages, their decisions and the broker's checks."""
