"""The files of timer messages: log and wheel."""
