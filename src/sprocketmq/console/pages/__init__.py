# SPDX-License-Identifier: Apache-2.0
"""The pages: one file for each kind, a function for each address."""
