# SPDX-License-Identifier: Apache-2.0
"""Failed rows: sent back to the brokers, or copied to the dead letters; and the verdicts, kept in the checkpoint."""
