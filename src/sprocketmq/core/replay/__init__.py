# SPDX-License-Identifier: Apache-2.0
"""A client's decisions, recorded and run again."""
