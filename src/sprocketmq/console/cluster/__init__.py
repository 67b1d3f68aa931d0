"""Asking the cluster: each question has a limit, and an answer that is missing says why."""
