# SPDX-License-Identifier: Apache-2.0
"""Decisions: each mechanism of RocketMQ as a small state machine without I/O, clock, threads or randomness; ``now_ms`` is passed in.
The code of an upper layer that hands a machine its events, and carries out the effects that it answers with, is called its driver.

consume       messages of one queue between pull and progress     transactions  half messages, their decisions and checks
group         allocation of queues, rebalance, subscriptions      cluster       tables of name servers, replication, handover
produce       routes, choice of a queue, batches of sends         access        access control of 4.9 and 5.x
retry         delay levels, retry and dead letter topics          sql92         SQL92 filters
doctor        why a consumer group makes no progress              replay        recording and replaying a consumer's decisions

lifecycle, callbacks, statistics: of clients      long_poll, timer_schedule, topic_attributes: of brokers
buffer_budget, descriptor_budget: limits          coalesced_runs, backoff, resource_names, quantities, hex_dump: of both
"""
