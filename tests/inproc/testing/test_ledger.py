# SPDX-License-Identifier: Apache-2.0
"""What the model of the random users remembers of a cluster."""

from __future__ import annotations

from sprocketmq.broker import Broker
from sprocketmq.store import StoredMessage
from sprocketmq.testing.simulation import World, simulate
from sprocketmq.testing.simulation.users.ledger import Ledger


def test_what_a_broker_had_before_it_lost_its_power_is_looked_for_again() -> None:
    async def main(world: World) -> None:
        await world.topic("orders", 1)
        ledger, (host,) = Ledger(world), world.brokers
        ledger.topics.append("orders")
        sent, message = ledger.attempt("orders", world.rng)
        sent.is_acknowledged = sent.is_durable = True
        broker = world.running(host)
        assert isinstance(broker, Broker)
        broker.put(StoredMessage("orders", 0, message.body), 0)
        ledger.look()
        assert ledger.is_stored(sent)
        world.kill(host, power=True)
        world.restart(host)
        await world.all_up()
        restarted = world.running(host)
        assert isinstance(restarted, Broker)
        assert restarted.store.max_offset("orders", 0) == 0, "this seed loses the message"
        ledger.note_lives()
        ledger.look()
        assert not ledger.is_stored(sent)

    simulate(main, seed=2, flushDiskType="ASYNC_FLUSH")
