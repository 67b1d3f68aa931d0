"""A client looked at: traces, spans, recorded decisions."""
