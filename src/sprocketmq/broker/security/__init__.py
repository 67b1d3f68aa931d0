"""Who may do what, and which names are names."""
