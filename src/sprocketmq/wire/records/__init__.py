"""Messages and their stored form, alone and in batches."""
