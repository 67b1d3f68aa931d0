# SPDX-License-Identifier: Apache-2.0
"""The decisions of access control, in both generations of RocketMQ, without I/O.

    4.9   plain_acl    accounts of YAML files, permissions PUB and SUB per topic and group (Java: PlainPermissionManager, Permission)
    5.x   users        users and their policies (Java: AuthenticationMetadataManager, AuthorizationMetadataManager)
          policies     resources by pattern, actions, source addresses, allow or deny (Java: AclAuthorizationHandler)

    both  rights         rights on a topic, a group or the cluster, in the terms of both
          request_needs  the rights that each request needs: one table for both
          need_readers   reading the topics and groups that a request names

``addresses`` matches white lists. A decision is a reason to refuse, or None.
"""
