"""JSON and properties files as Java writes them."""
