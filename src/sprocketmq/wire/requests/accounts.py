# SPDX-License-Identifier: Apache-2.0
"""Requests of access control: accounts of 4.9, users and policies of 5.x."""

from __future__ import annotations

from sprocketmq.wire.bodies.auth import AclInfo, UserInfo
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.headers.acl import (
    AclSubjectRequestHeader,
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    DeleteAclRequestHeader,
    GetBrokerAclConfigResponseHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
    UserRequestHeader,
)
from sprocketmq.wire.requests.access import CHANGE_CLUSTER, LOOK_AT_CLUSTER, cluster
from sprocketmq.wire.requests.declaration import JsonList, JsonObject, Peer, Request

UPDATE_AND_CREATE_ACL_CONFIG = Request(
    code=RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=CreateAccessConfigRequestHeader,
)
DELETE_ACL_CONFIG = Request(
    code=RequestCode.DELETE_ACL_CONFIG,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=DeleteAccessConfigRequestHeader,
)
GET_BROKER_CLUSTER_ACL_INFO = Request(
    code=RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_header=GetBrokerAclConfigResponseHeader,
)
UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = Request(
    code=RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=UpdateGlobalWhiteAddrsConfigRequestHeader,
)
GET_BROKER_CLUSTER_ACL_CONFIG = Request(
    code=RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    answer_body=JsonObject,
)
AUTH_CREATE_USER = Request(
    code=RequestCode.AUTH_CREATE_USER,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=UserRequestHeader,
    body=UserInfo,
)
AUTH_UPDATE_USER = Request(
    code=RequestCode.AUTH_UPDATE_USER,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=UserRequestHeader,
    body=UserInfo,
)
AUTH_DELETE_USER = Request(
    code=RequestCode.AUTH_DELETE_USER,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=UserRequestHeader,
)
AUTH_GET_USER = Request(
    code=RequestCode.AUTH_GET_USER,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    header=UserRequestHeader,
    answer_body=UserInfo,
)
AUTH_LIST_USER = Request(
    code=RequestCode.AUTH_LIST_USER,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    header=ListUsersRequestHeader,
    answer_body=JsonList,
)
AUTH_CREATE_ACL = Request(
    code=RequestCode.AUTH_CREATE_ACL,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=AclSubjectRequestHeader,
    body=AclInfo,
)
AUTH_UPDATE_ACL = Request(
    code=RequestCode.AUTH_UPDATE_ACL,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=AclSubjectRequestHeader,
    body=AclInfo,
)
AUTH_DELETE_ACL = Request(
    code=RequestCode.AUTH_DELETE_ACL,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=DeleteAclRequestHeader,
)
AUTH_GET_ACL = Request(
    code=RequestCode.AUTH_GET_ACL,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    header=AclSubjectRequestHeader,
    answer_body=AclInfo,
)
AUTH_LIST_ACL = Request(
    code=RequestCode.AUTH_LIST_ACL,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    header=ListAclsRequestHeader,
    answer_body=JsonList,
)
