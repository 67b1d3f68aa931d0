"""Slaves, handover, and registration at name servers."""
