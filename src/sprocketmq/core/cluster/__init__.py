"""What name servers know of brokers; replication between the brokers of one group."""
