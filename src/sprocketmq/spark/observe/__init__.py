"""Progress, lag and losses of a query: reports and metrics."""
