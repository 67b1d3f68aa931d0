# SPDX-License-Identifier: Apache-2.0
"""Bytes <-> typed objects of the remoting protocol. No I/O, no clock, no threads: everything here can be fuzzed in a loop."""
