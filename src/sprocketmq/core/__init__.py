# SPDX-License-Identifier: Apache-2.0
"""Decisions: each mechanism of RocketMQ as a small state machine without I/O, clock, threads or randomness; ``now_ms`` is passed in.

consume       messages of one queue between pull and progress     transactions  half messages, their decisions and checks
group         allocation of queues, rebalance, subscriptions      cluster       tables of name servers, replication, handover
produce       routes, choice of a queue, batches of sends         access        access control of 4.9 and 5.x
retry         delay levels, retry and dead letter topics          sql92         SQL92 filters
doctor        why a consumer group makes no progress              replay        recording and replaying a consumer's decisions"""
