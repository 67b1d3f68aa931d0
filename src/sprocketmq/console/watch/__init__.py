# SPDX-License-Identifier: Apache-2.0
"""What the console collects in the background: lag over time, brokers, verdicts."""
