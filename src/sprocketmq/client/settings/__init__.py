# SPDX-License-Identifier: Apache-2.0
"""The options of clients and their checks."""
