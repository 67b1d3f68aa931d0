import sprocketmq.logs  # noqa: F401 - its loggers tell what peers say in one line
