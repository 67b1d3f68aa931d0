# SPDX-License-Identifier: Apache-2.0
"""Random users of a cluster, and a model of what RocketMQ promises them.

Each run draws what its users do (``random_users.FEATURES``). Rules
1. An acknowledged message is stored at the offset that the answer names, with its bytes, and once, unless a try was not answered. What one
   producer sends one after the other has rising offsets in a queue.
2. Every group finishes every message that it wants: its listener succeeds at least once, or it is a dead letter after as many failures as
   the group allows. Nothing else comes: nothing that a filter keeps out, nothing that was rolled back or recalled, nothing before its time,
   nothing that a paused or unsubscribed consumer did not ask for. Every member of a broadcasting group gets every message.
3. Nothing comes again without a cause: a failure, a member that came or went, a reset, the weather. What an orderly group has finished
   does not come again when its members come and go.
4. An orderly group begins a message only when all before it in its queue are finished, has one listener at a time in a queue, and one
   holder of a lock.
5. Progress never passes a message that no listener has let go of. After a seek the next message is the first from there. The progress of
   an orderly queue never goes back.
6. When the trouble is over, all groups are done within ``AFTER_MS``, and their committed offsets are the ends of the queues.
7. Every call of a client ends within its limit, however the cluster is, in addition to the time for which its process was frozen.
8. With nothing to do, clients and brokers do nearly nothing. A client that has shut down has no task left. When users have left, brokers
   have forgotten their connections, pulls, locks and memberships.
9. No callback raises, a server starts on what its disk has, and nothing waits for ever or runs without waiting.
10. When the trouble is over, producers can send, and requests are answered. A reply reaches who asked 60 s after it, and 60 s after what
   was between its sender, its broker and who asked.
11. A broker hears of each client that can reach it, every 65 s at least.
12. Progress on a disk is not ahead of its log.
13. What is stored while a group has nothing to do, in calm weather, is delivered within 5 s.
14. A store writes only where it has reserved space, so that a full disk does not end it.
15. What has expired does not come back; what did not reach the disk before a power cut is said by the next start, if it left a trace.
16. What was acknowledged of a topic is so after a restart. A deleted topic has no messages; one that is created again has none of its old
   ones. A table has its name at each start after a kill.
17. A query by key finds each stored message, also in the middle of a repair of the index.
18. A server answers each request that it has read.
"""

from sprocketmq.testing.simulation.users.random_users import FEATURES, RandomUsers

__all__ = ["FEATURES", "RandomUsers"]
