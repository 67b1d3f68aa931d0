"""What name servers know of brokers, and what brokers of one group hand each other."""
