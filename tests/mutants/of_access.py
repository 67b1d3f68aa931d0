"""Mutants of access control, TLS and limits."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["ACCESS_MUTANTS"]

CORE, BROKER, NET = "src/sprocketmq/core/access", "src/sprocketmq/broker", "src/sprocketmq/net"
REQUESTS = "src/sprocketmq/wire/requests"
ACL = "tests/unit/core/test_access_plain_acl.py"
NEEDS = "tests/unit/core/test_access_needs.py"
USERS = "tests/unit/core/test_access_users.py"
GATE = "tests/inproc/broker/test_broker_access.py"
LIMITS = "tests/system/net/test_limits.py"
TLS = "tests/system/net/test_tls.py"
RENEWED = "tests/inproc/spark/test_renewed_keys.py"

ACCESS_MUTANTS = [
    Mutant(
        "access",
        "any signature fits",
        f"{BROKER}/security/access.py",
        "    if _ADDED_AFTER_SIGNING not in fields:\n        return False",
        "    if _ADDED_AFTER_SIGNING not in fields:\n        return True",
        f"{GATE}::test_any_change_of_a_signed_request_is_noticed",
    ),
    Mutant(
        "access",
        "a refused request is carried out all the same",
        f"{BROKER}/security/access.py",
        "        return response(command, ResponseCode.NO_PERMISSION, reason)",
        "        behind[command.code](broker, connection, command, now_ms)\n"
        "        return response(command, ResponseCode.NO_PERMISSION, reason)",
        f"{GATE}::test_a_oneway_send_without_permission_stores_nothing",
    ),
    Mutant(
        "access",
        "every account can make itself an administrator, as in Apache 4.9",
        f"{REQUESTS}/accounts.py",
        "    code=RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,\n    served_by=Peer.BROKER,\n    access=cluster(CHANGE_CLUSTER),\n",
        "    code=RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,\n    served_by=Peer.BROKER,\n    access=(),\n",
        f"{GATE}::test_administrators_codes_are_for_administrators",
    ),
    Mutant(
        "access",
        "DENY is a permission like others",
        f"{CORE}/plain_acl.py",
        "    if owned & DENY:\n        return False",
        "    if owned & DENY:\n        return True",
        f"{ACL}::test_each_topic_and_group_has_its_permission_or_the_default",
    ),
    Mutant(
        "access",
        "lite pulls of 5.x pass unseen",
        f"{REQUESTS}/messages.py",
        "    code=RequestCode.LITE_PULL_MESSAGE,\n    served_by=Peer.BROKER,\n"
        '    access=topic("topic", CONSUME) + group("consumerGroup", CONSUME),\n',
        "    code=RequestCode.LITE_PULL_MESSAGE,\n    served_by=Peer.BROKER,\n    access=(),\n",
        f"{NEEDS}::test_a_request_needs_what_its_header_names",
    ),
    Mutant(
        "access",
        "a broken file of accounts takes all accounts away",
        f"{BROKER}/security/plain_access.py",
        "            self._stamp = stamp  # told once",
        "            self._acl = PlainAcl({})\n            self._stamp = stamp  # told once",
        f"{GATE}::test_a_changed_file_counts_within_half_a_second_and_a_broken_one_never",
    ),
    Mutant(
        "access",
        "decisions outlive a change of policies",
        f"{CORE}/users.py",
        "        for policy_type, entries in checked:\n            acl.update(policy_type, entries)\n        self._allowed.clear()",
        "        for policy_type, entries in checked:\n            acl.update(policy_type, entries)",
        f"{USERS}::test_a_remembered_decision_ends_with_any_change",
    ),
    Mutant(
        "access",
        "the least specific policy decides",
        f"{CORE}/policies.py",
        "return min(matching",
        "return max(matching",
        f"{USERS}::test_the_more_specific_entry_decides_whatever_the_order",
    ),
    Mutant(
        "access",
        "policies count from anywhere",
        f"{CORE}/policies.py",
        "    return network is not None and address in network",
        "    return network is not None",
        f"{USERS}::test_an_entry_counts_only_from_its_sources",
    ),
    Mutant(
        "access",
        "a normal user makes himself Super",
        f"{BROKER}/handlers/admin/auth.py",
        "    if touches_super and not broker.users.is_super(command):",
        "    if False:",
        f"{GATE}::test_a_normal_user_neither_administers_users_nor_touches_a_super_user",
    ),
    Mutant(
        "limits",
        "requests that were read are served though nobody reads the answers",
        f"{NET}/connection.py",
        "            if self._is_stopped:\n                self._keep_unread(whole, spans[number:])\n                return\n",
        "",
        f"{LIMITS}::test_a_peer_that_never_reads_does_not_grow_our_memory",
    ),
    Mutant(
        "limits",
        "answers held back for a slow reader are forgotten",
        f"{NET}/bounded_protocol.py",
        "            unread, self._unread = self._unread, None\n            self._serve(*unread)",
        "            self._unread = None",
        f"{LIMITS}::test_a_peer_that_reads_late_gets_every_answer_in_order",
    ),
    Mutant(
        "limits",
        "a client that cannot write does not read either",
        f"{NET}/connection.py",
        "is_served: bool = False,",
        "is_served: bool = True,",
        f"{LIMITS}::test_two_that_write_more_than_the_other_reads_do_not_wait_for_each_other",
    ),
    Mutant(
        "limits",
        "one connection too many is served",
        f"{NET}/server.py",
        "        if not self._has_room() or not self._share.take():\n            connection.abort()\n            return\n",
        "",
        f"{LIMITS}::test_one_connection_too_many_is_closed_at_once_and_counted",
    ),
    Mutant(
        "limits",
        "any number of pulls may wait",
        f"{BROKER}/delivery/parked.py",
        "        if len(room) >= self._limit or",
        "        if False and",
        "tests/inproc/broker/test_broker_long_polling.py::test_no_more_pulls_wait_than_there_is_room_for",
    ),
    Mutant(
        "tls",
        "enforcing lets plain connections in",
        f"{NET}/tls_listener.py",
        "        if not first or (self._tls.is_enforcing and not speaks_tls):",
        "        if not first:",
        f"{TLS}::test_enforcing_closes_a_plain_connection_and_serves_tls",
    ),
    Mutant(
        "tls",
        "a certificate is read once for ever",
        f"{NET}/tls.py",
        "            self.context = _context(self.settings)\n        except",
        "            _context(self.settings)\n        except",
        f"{TLS}::test_a_new_certificate_counts_for_new_connections_and_open_ones_go_on",
    ),
    Mutant(
        "keys",
        "a file of keys is read once for ever",
        "src/sprocketmq/client/settings/key_file.py",
        "        if seen != self._seen:",
        "        if self._seen is None:",
        "tests/unit/client/test_key_file.py::test_the_next_request_is_signed_with_the_new_keys",
    ),
    Mutant(
        "keys",
        "keys are lost while their file is written",
        "src/sprocketmq/client/settings/key_file.py",
        "        except ConfigurationError:\n            self._seen = None",
        "        except ConfigurationError:\n            raise",
        "tests/unit/client/test_key_file.py::test_known_keys_stay_in_use_while_the_file_is_away_or_half_written",
    ),
    Mutant(
        "keys",
        "a refused signature is the end",
        f"{NET}/pool.py",
        "        if command.ext_fields.get(SIGNATURE) != refused:",
        "        if False:",
        f"{RENEWED}::test_a_refused_signature_has_the_file_looked_at_once_more",
    ),
    Mutant(
        "keys",
        "a missing permission is taken for keys that are not renewed yet",
        f"{NET}/pool.py",
        ' and _OF_SIGNATURES.search(answer.remark or "") is not None',
        "",
        f"{RENEWED}::test_keys_that_stay_wrong_are_told_after_the_retry_time_and_a_missing_permission_at_once",
    ),
    Mutant(
        "keys",
        "planning does not wait for the file",
        "src/sprocketmq/spark/cluster/cluster.py",
        "SystemBusy | SignatureRefused)",
        "SystemBusy)",
        f"{RENEWED}::test_the_broker_may_have_new_keys_before_the_file[plan]",
    ),
    Mutant(
        "keys",
        "a write does not wait for the file",
        "src/sprocketmq/spark/send/row_sender.py",
        "isinstance(error, SystemBusy | SignatureRefused)",
        "isinstance(error, SystemBusy)",
        f"{RENEWED}::test_the_broker_may_have_new_keys_before_the_file[send]",
    ),
    Mutant(
        "keys",
        "a read does not wait for the file",
        "src/sprocketmq/client/read/queue_reader.py",
        "            except (NetworkError, RequestTimeout, SystemBusy, SignatureRefused):",
        "            except (NetworkError, RequestTimeout, SystemBusy):",
        f"{RENEWED}::test_the_broker_may_have_new_keys_before_the_file[pull]",
    ),
]
