# SPDX-License-Identifier: Apache-2.0
"""Asking the cluster: each question has a limit, and an answer that is missing says why."""
