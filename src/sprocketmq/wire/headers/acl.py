# SPDX-License-Identifier: Apache-2.0
"""Headers of access control: codes 50 to 53 of 4.9 (accounts and white lists), 3001 to 3010 of 5.x (users and their policies)."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader


class CreateAccessConfigRequestHeader(ExtHeader):
    """Header of UPDATE_AND_CREATE_ACL_CONFIG (50, 4.9). Permissions are lists of ``name=PUB|SUB``, separated by commas. Absent fields
    stay as they are, except ``admin``, which becomes false."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None
    admin: bool = False


class DeleteAccessConfigRequestHeader(ExtHeader):
    access_key: str


class GetBrokerAclConfigResponseHeader(ExtHeader):
    """Code 52 of 4.9: a DataVersion as JSON, and a JSON object with the DataVersion of each file."""

    version: str
    all_acl_file_version: str
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsConfigRequestHeader(ExtHeader):
    """Code 53 of 4.9: addresses that need no account, separated by commas; without a path those of the default file."""

    global_white_addrs: str
    acl_file_full_path: str | None = None


class UserRequestHeader(ExtHeader):
    """Header of AUTH_CREATE_USER, AUTH_UPDATE_USER (with a UserInfo as body), AUTH_DELETE_USER and AUTH_GET_USER (3001 to 3004, 5.x)."""

    username: str | None = None


class ListUsersRequestHeader(ExtHeader):
    """Header of AUTH_LIST_USER (3005, 5.x): list the users whose name contains ``filter``, or all users."""

    filter: str | None = None


class AclSubjectRequestHeader(ExtHeader):
    """Codes 3006, 3007 (with an AclInfo as body) and 3009 of 5.x: policies of ``User:name``."""

    subject: str | None = None


class DeleteAclRequestHeader(ExtHeader):
    """Header of AUTH_DELETE_ACL (3008, 5.x): delete the policies of a subject for a ``resource``, or all of them."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAclsRequestHeader(ExtHeader):
    """Header of AUTH_LIST_ACL (3010, 5.x): list policies whose subject and resource contain the filters."""

    subject_filter: str | None = None
    resource_filter: str | None = None
