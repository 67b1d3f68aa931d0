"""The sink: one writer for each task, one commit for each batch."""
