# SPDX-License-Identifier: Apache-2.0
"""Messages by key and by id."""
