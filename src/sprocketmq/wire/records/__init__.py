# SPDX-License-Identifier: Apache-2.0
"""Messages and their stored form, alone and in batches."""
