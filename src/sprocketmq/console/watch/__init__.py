# SPDX-License-Identifier: Apache-2.0
"""What is watched in the background: lag over time, brokers, verdicts."""
