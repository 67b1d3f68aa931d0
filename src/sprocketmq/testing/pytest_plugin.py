"""The pytest plugin of SprocketMQ: the fixture ``rocketmq`` (see sprocketmq.testing)."""
