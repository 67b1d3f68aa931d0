"""Options of source and sink: what may be given, and what it becomes."""
