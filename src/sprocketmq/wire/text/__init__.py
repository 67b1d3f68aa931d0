# SPDX-License-Identifier: Apache-2.0
"""JSON and properties files as Java writes them."""
