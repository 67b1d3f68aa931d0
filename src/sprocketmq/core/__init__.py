# SPDX-License-Identifier: Apache-2.0
"""Decisions: each mechanism of RocketMQ as a small state machine without I/O, clock, threads or randomness; ``now_ms`` is passed in.

subscription      which messages a group wants           retry_schedule    delay levels, retry and dead letter topics
allocation        which queues a member gets             queue_lock        locks for orderly consumption, both sides
rebalance         the table of queues being read         orderly_turn      one turn of one queue, in order
process_queue     messages between pull and progress     consume_result    what a concurrent listener's answer means
flow_control      when to stop pulling                   consume_timeout   stuck messages
pull_cursor       the pull loop, as decisions            consume_progress  offsets, and where a new group begins
route_table       the client's view of routes            namesrv_table     the name server's tables
long_poll         pulls that wait at the broker          send_latency      which queue to send to
statistics        rolling numbers
"""
