"""What is watched in the background: lag over time, brokers, verdicts."""
