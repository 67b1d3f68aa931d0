"""The source: which messages a batch reads, and reading them."""
