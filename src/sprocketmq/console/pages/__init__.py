"""The pages: one file for each kind, a function for each address."""
