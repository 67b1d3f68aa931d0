"""Records of brokers as columns of Arrow."""
