"""Observing a client: message trace, spans, recorded decisions."""
