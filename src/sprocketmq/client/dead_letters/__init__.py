"""Messages that were given up: listed, mended, sent again."""
