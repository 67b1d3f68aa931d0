# SPDX-License-Identifier: Apache-2.0
"""Requests of access control: accounts of 4.9, users and policies of 5.x."""

from __future__ import annotations

from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.requests.access import CHANGE_CLUSTER, LOOK_AT_CLUSTER, cluster
from sprocketmq.wire.requests.declaration import JsonList, JsonObject, Request

UPDATE_AND_CREATE_ACL_CONFIG = Request(
    code=RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    access=cluster(CHANGE_CLUSTER),
    header=headers.CreateAccessConfigRequestHeader,
)
DELETE_ACL_CONFIG = Request(
    code=RequestCode.DELETE_ACL_CONFIG,
    access=cluster(CHANGE_CLUSTER),
    header=headers.DeleteAccessConfigRequestHeader,
)
GET_BROKER_CLUSTER_ACL_INFO = Request(
    code=RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
    access=cluster(LOOK_AT_CLUSTER),
    answer_header=headers.GetBrokerAclConfigResponseHeader,
)
UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = Request(
    code=RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    access=cluster(CHANGE_CLUSTER),
    header=headers.UpdateGlobalWhiteAddrsConfigRequestHeader,
)
GET_BROKER_CLUSTER_ACL_CONFIG = Request(
    code=RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
    access=cluster(CHANGE_CLUSTER),
    answer_body=JsonObject,
)
AUTH_CREATE_USER = Request(
    code=RequestCode.AUTH_CREATE_USER,
    access=cluster(CHANGE_CLUSTER),
    header=headers.UserRequestHeader,
    body=bodies.UserInfo,
)
AUTH_UPDATE_USER = Request(
    code=RequestCode.AUTH_UPDATE_USER,
    access=cluster(CHANGE_CLUSTER),
    header=headers.UserRequestHeader,
    body=bodies.UserInfo,
)
AUTH_DELETE_USER = Request(
    code=RequestCode.AUTH_DELETE_USER,
    access=cluster(CHANGE_CLUSTER),
    header=headers.UserRequestHeader,
)
AUTH_GET_USER = Request(
    code=RequestCode.AUTH_GET_USER,
    access=cluster(LOOK_AT_CLUSTER),
    header=headers.UserRequestHeader,
    answer_body=bodies.UserInfo,
)
AUTH_LIST_USER = Request(
    code=RequestCode.AUTH_LIST_USER,
    access=cluster(LOOK_AT_CLUSTER),
    header=headers.ListUsersRequestHeader,
    answer_body=JsonList,
)
AUTH_CREATE_ACL = Request(
    code=RequestCode.AUTH_CREATE_ACL,
    access=cluster(CHANGE_CLUSTER),
    header=headers.AclSubjectRequestHeader,
    body=bodies.AclInfo,
)
AUTH_UPDATE_ACL = Request(
    code=RequestCode.AUTH_UPDATE_ACL,
    access=cluster(CHANGE_CLUSTER),
    header=headers.AclSubjectRequestHeader,
    body=bodies.AclInfo,
)
AUTH_DELETE_ACL = Request(
    code=RequestCode.AUTH_DELETE_ACL,
    access=cluster(CHANGE_CLUSTER),
    header=headers.DeleteAclRequestHeader,
)
AUTH_GET_ACL = Request(
    code=RequestCode.AUTH_GET_ACL,
    access=cluster(LOOK_AT_CLUSTER),
    header=headers.AclSubjectRequestHeader,
    answer_body=bodies.AclInfo,
)
AUTH_LIST_ACL = Request(
    code=RequestCode.AUTH_LIST_ACL,
    access=cluster(LOOK_AT_CLUSTER),
    header=headers.ListAclsRequestHeader,
    answer_body=JsonList,
)
