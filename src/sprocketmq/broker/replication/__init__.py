"""Masters and slaves, and what name servers are told."""
