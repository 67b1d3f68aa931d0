"""Options of source and sink: their checks, and the settings that they become."""
