"""The true end of a store that was cut off, and queues and log in agreement again."""
