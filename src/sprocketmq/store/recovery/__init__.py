# SPDX-License-Identifier: Apache-2.0
"""Finding the end of a store after a crash, and making queues and log consistent."""
