"""What the consumers of one group share: progress, retries, send-backs."""
