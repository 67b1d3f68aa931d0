"""Headers of access control: 50 to 53 of 4.9 (accounts and white lists), 3001 to 3010 of 5.x (users and their policies)."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader

__all__ = [
    "AclSubjectRequestHeader",
    "CreateAccessConfigRequestHeader",
    "DeleteAccessConfigRequestHeader",
    "DeleteAclRequestHeader",
    "GetBrokerAclConfigResponseHeader",
    "ListAclsRequestHeader",
    "ListUsersRequestHeader",
    "UpdateGlobalWhiteAddrsConfigRequestHeader",
    "UserRequestHeader",
]


class CreateAccessConfigRequestHeader(ExtHeader):
    """Code 50 (4.9). Permissions are comma lists of ``name=PUB|SUB``; what is absent stays as it is, ``admin`` becomes false."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None
    admin: bool = False


class DeleteAccessConfigRequestHeader(ExtHeader):
    """Code 51 (4.9)."""

    access_key: str


class GetBrokerAclConfigResponseHeader(ExtHeader):
    """Answer to code 52 (4.9). ``version`` is a DataVersion as JSON, ``all_acl_file_version`` a JSON object of file to DataVersion."""

    version: str
    all_acl_file_version: str
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsConfigRequestHeader(ExtHeader):
    """Code 53 (4.9). ``global_white_addrs`` is a comma list; without a path the default file is meant."""

    global_white_addrs: str
    acl_file_full_path: str | None = None


class UserRequestHeader(ExtHeader):
    """Codes 3001 to 3004 (5.x): create, update, delete or get a user; the first two carry a UserInfo as body."""

    username: str | None = None


class ListUsersRequestHeader(ExtHeader):
    """Code 3005 (5.x): users whose name contains ``filter``, all without one."""

    filter: str | None = None


class AclSubjectRequestHeader(ExtHeader):
    """Codes 3006, 3007 and 3009 (5.x): create, update or get the policies of ``User:name``; the first two carry an AclInfo as body."""

    subject: str | None = None


class DeleteAclRequestHeader(ExtHeader):
    """Code 3008 (5.x): without a ``resource`` all policies of the subject go."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAclsRequestHeader(ExtHeader):
    """Code 3010 (5.x): entries whose subject and resource contain the filters."""

    subject_filter: str | None = None
    resource_filter: str | None = None
