"""Work on log, queues and index beside the appends: dispatch, flush, retention."""
