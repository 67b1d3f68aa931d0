"""Mutants of the client instance, of forks, and of who reads which queue."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["INSTANCE_MUTANTS"]

CORE, CLIENT, NET = "src/sprocketmq/core", "src/sprocketmq/client", "src/sprocketmq/net"
PARTS = "tests/unit/client/test_client_parts.py"
INSTANCE = "tests/inproc/client/test_client_instance.py"
SHARING = "tests/inproc/client/test_client_rebalance.py"
ALLOCATION = "tests/unit/core/test_allocation.py"
FORK = "tests/system/net/test_fork.py"
HISTORY = "tests/interop/test_group_history.py"
CONCURRENT = "tests/inproc/client/test_client_concurrent.py"
LONG = "tests/inproc/client/test_client_long_runs.py"

INSTANCE_MUTANTS = [
    Mutant(
        "S1",
        "a name server list that came from the environment is never looked at again",
        f"{CLIENT}/remoting/instance.py",
        "        if not self.name_servers.is_fixed:\n",
        "        if False:\n",
        f"{INSTANCE}::test_name_servers_that_moved_are_found_through_the_environment",
    ),
    Mutant(
        "S1",
        "an address server that answers nonsense takes the name servers away",
        f"{CLIENT}/remoting/name_servers.py",
        "        except (OSError, ValueError, ConfigurationError) as error:\n",
        "        except OSError as error:\n",
        f"{PARTS}::test_an_address_server_is_asked_before_the_first_request_and_again_for_a_new_list",
    ),
    Mutant(
        "S1",
        "two requests that fail together skip a name server",
        f"{CLIENT}/remoting/name_servers.py",
        "if address == self.chosen:",
        "if True:",
        f"{PARTS}::test_requests_that_fail_together_move_to_the_next_name_server_not_past_it",
    ),
    Mutant(
        "S1",
        "one consumer's failing progress keeps that of the others from being written",
        f"{CLIENT}/remoting/instance.py",
        '            except Exception:\n                log.exception("group %s: the periodic %s failed", consumer.group_name, what)\n',
        "            except ZeroDivisionError:\n                pass\n",
        f"{INSTANCE}::test_one_consumers_failure_keeps_no_other_from_its_periodic_work",
    ),
    Mutant(
        "S1",
        "a listener pool never follows what waits for it",
        f"{CLIENT}/consume/running_consumer.py",
        "        if waiting >= threshold:\n",
        "        if False:\n",
        f"{INSTANCE}::test_a_listener_pool_grows_while_much_waits_at_the_brokers_and_shrinks_afterwards",
    ),
    Mutant(
        "S2",
        "brokers that do not answer hold up a shutdown without end",
        f"{CLIENT}/consume/running_consumer.py",
        "await asyncio.wait_for(self._leave(), _LEAVE_TIMEOUT_S)",
        "await self._leave()",
        f"{INSTANCE}::test_brokers_that_do_not_answer_hold_up_a_shutdown_for_a_limited_time_and_no_heartbeat_names_who_left",
    ),
    Mutant(
        "S2",
        "who could not say goodbye goes on being named in heartbeats",
        f"{CLIENT}/consume/running_consumer.py",
        "            self.instance.forget_consumer(self.group.name)\n",
        "            pass\n",
        f"{INSTANCE}::test_brokers_that_do_not_answer_hold_up_a_shutdown_for_a_limited_time_and_no_heartbeat_names_who_left",
    ),
    Mutant(
        "S3",
        "a strategy that fails takes all queues away",
        f"{CLIENT}/consume/rebalancer.py",
        "            return None\n        self._strategy_fails.discard(topic)\n",
        "            return []\n        self._strategy_fails.discard(topic)\n",
        f"{SHARING}::test_a_strategy_that_fails_takes_nothing_away_and_is_asked_again",
    ),
    Mutant(
        "S3",
        "a broker that cannot share out queues leaves its members without any",
        f"{CLIENT}/consume/rebalancer.py",
        "            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:\n",
        "            if True:\n",
        f"{SHARING}::test_the_broker_shares_the_queues_out_where_it_is_asked_to",
    ),
    Mutant(
        "S3",
        "CONSISTENT_HASH has another number of virtual nodes than asked for",
        f"{CORE}/group/allocation.py",
        "        return AllocateByConsistentHash(virtual_node_count)\n",
        "        return AllocateByConsistentHash()\n",
        f"{ALLOCATION}::test_all_six_strategies_are_found_by_javas_names",
    ),
    Mutant(
        "net",
        "a forked child keeps its parent's connections open",
        f"{NET}/fork.py",
        "            os.dup2(nothing, descriptor, inheritable=False)\n",
        "            pass\n",
        f"{FORK}::test_brokers_notice_the_parents_death_at_once_although_a_child_lives",
    ),
    Mutant(
        "net",
        "a client made before a fork cannot be started in the child",
        f"{CLIENT}/face.py",
        "            self._engine = cast(Engine, _EngineLater(self))\n",
        "            pass\n",
        f"{FORK}::test_a_forked_child_is_told_whose_its_clients_are_and_makes_its_own",
    ),
    Mutant(
        "S3",
        "the judge of mixed groups takes a call that never ended for none",
        "tests/interop/group_history.py",
        "self.deaths.get(call.member, _FOR_EVER)",
        "self.deaths.get(call.member, call.begin)",
        f"{HISTORY}::test_each_breach_is_named",
    ),
    Mutant(
        "S3",
        "the judge of mixed groups takes what nobody sent for a send without an answer",
        "tests/interop/group_history.py",
        "if call.place not in stored and call.body in unplaced:",
        "if call.place not in stored:",
        f"{HISTORY}::test_each_breach_is_named",
    ),
    Mutant(
        "S1",
        "a forked child is told nothing and shares its parent's sockets",
        f"{NET}/fork.py",
        "    os.register_at_fork(after_in_child=_in_child)\n",
        "    pass\n",
        f"{FORK}::test_a_forked_child_is_told_whose_its_clients_are_and_makes_its_own[os.fork]",
    ),
    Mutant(
        "S1",
        "a forked child keeps the descriptors of its parent's connections",
        f"{NET}/fork.py",
        "            os.dup2(nothing, descriptor, inheritable=False)\n",
        "            pass\n",
        f"{FORK}::test_a_forked_child_is_told_whose_its_clients_are_and_makes_its_own[os.fork]",
    ),
    Mutant(
        "S2",
        "a start leaves the queues to the next round of rebalance",
        f"{CLIENT}/consume/running_consumer.py",
        "        await self.announce()\n        await self.rebalance()\n",
        "        await self.announce()\n",
        f"{CONCURRENT}::test_messages_that_wait_already_are_consumed_too",
    ),
    Mutant(
        "S3",
        "a queue that is taken up begins behind its next message",
        f"{CLIENT}/consume/rebalancer.py",
        "            return decision.offset\n",
        "            return decision.offset + (decision.offset > 0)\n",
        f"{LONG}::test_rebalances_under_load_lose_nothing_keep_order_and_leave_nothing_behind[concurrent]",
    ),
]
