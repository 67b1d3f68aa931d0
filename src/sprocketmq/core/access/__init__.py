"""Who may do what: RocketMQ's two generations of access control as pure decisions.

    4.9   plain_acl    accounts of YAML files, permissions PUB and SUB per topic and group (Java: PlainPermissionManager, Permission)
    5.x   users        users and their policies (Java: AuthenticationMetadataManager, AuthorizationMetadataManager)
          policies     resources by pattern, actions, source addresses, allow or deny (Java: AclAuthorizationHandler)

``plain_needs`` and ``auth_needs`` say what a request touches, ``addresses`` matches white lists. A decision is a reason to refuse, or None.
"""
