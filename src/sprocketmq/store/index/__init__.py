"""Messages by key and by id."""
