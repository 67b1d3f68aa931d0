# SPDX-License-Identifier: Apache-2.0
"""Messages on their way to consumers: filters, parked pulls, delays, transactions."""
