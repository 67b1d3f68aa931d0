"""Who may do what: RocketMQ's two generations of access control as pure decisions.

    4.9   plain_acl    accounts of YAML files, permissions PUB and SUB per topic and group (Java: PlainPermissionManager, Permission)
    5.x   users        users and their policies (Java: AuthenticationMetadataManager, AuthorizationMetadataManager)
          policies     resources by pattern, actions, source addresses, allow or deny (Java: AclAuthorizationHandler)

    both  rights         what may be done to a topic, a group or the cluster, in the words of both
          request_needs  what each request needs: the one table that both go by
          need_readers   where a request names its topics and groups

``addresses`` matches white lists. A decision is a reason to refuse, or None.
"""
