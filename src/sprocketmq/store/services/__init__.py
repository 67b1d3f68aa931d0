"""Background work on log, queues and index: dispatch, flush, retention."""
