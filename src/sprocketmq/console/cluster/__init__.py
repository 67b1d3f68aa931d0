# SPDX-License-Identifier: Apache-2.0
"""Requests to the cluster: each has a timeout, and a missing result has a reason."""
