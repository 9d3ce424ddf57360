"""Converts what members and administrators ask of group coordinators: values to kio, and back."""

from __future__ import annotations

from typing import Any

from highwater_core.errors import ErrorCode
from highwater_wire.kafka.entities import (
    NO_THROTTLE,
    Schema,
    make,
    read_error,
    read_ms,
    rows,
    write_ms,
)
from highwater_wire.kafka.group_messages import (
    NO_OPERATIONS,
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupProtocol,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from highwater_wire.kafka.text import fitting

_NULLABLE_PROTOCOL_VERSION = 7
_MANY_LEAVE_VERSION = 3

# ---------------------------------------------------------------- JoinGroup


def read_join_request(entity: Any, version: int) -> JoinGroupRequest:
    """Return the request; version 0 has one timeout for both."""
    session_timeout_ms = read_ms(entity.session_timeout)
    return JoinGroupRequest(
        group_id=entity.group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            read_ms(entity.rebalance_timeout) if version > 0 else session_timeout_ms
        ),
        member_id=entity.member_id,
        protocol_type=entity.protocol_type,
        protocols=tuple(GroupProtocol(item.name, item.metadata) for item in rows(entity.protocols)),
        group_instance_id=getattr(entity, "group_instance_id", None),
        reason=getattr(entity, "reason", None),
        request_version=version,
    )


def write_join_request(value: JoinGroupRequest, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.JoinGroupRequest,
        group_id=value.group_id,
        session_timeout=write_ms(value.session_timeout_ms),
        rebalance_timeout=write_ms(value.rebalance_timeout_ms),
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
        protocol_type=value.protocol_type,
        protocols=tuple(
            types.JoinGroupRequestProtocol(name=item.name, metadata=item.metadata)
            for item in value.protocols
        ),
        reason=value.reason,
    )


def read_join_response(entity: Any, _request: JoinGroupRequest) -> JoinGroupResponse:
    return JoinGroupResponse(
        error=read_error(entity.error_code),
        member_id=entity.member_id,
        generation=entity.generation_id,
        protocol_type=getattr(entity, "protocol_type", None),
        protocol=entity.protocol_name,
        leader=entity.leader,
        members=tuple(
            JoinedMember(item.member_id, getattr(item, "group_instance_id", None), item.metadata)
            for item in rows(entity.members)
        ),
        skip_assignment=getattr(entity, "skip_assignment", False),
    )


def write_join_response(value: JoinGroupResponse, schema: Schema) -> Any:
    types = schema.types
    protocol = fitting(value.protocol)
    if protocol is None and schema.version < _NULLABLE_PROTOCOL_VERSION:
        protocol = ""
    return make(
        types.JoinGroupResponse,
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        generation_id=value.generation,
        protocol_type=fitting(value.protocol_type),
        protocol_name=protocol,
        leader=fitting(value.leader),
        skip_assignment=value.skip_assignment,
        member_id=fitting(value.member_id),
        members=tuple(
            make(
                types.JoinGroupResponseMember,
                member_id=fitting(item.member_id),
                group_instance_id=fitting(item.group_instance_id),
                metadata=item.metadata,
            )
            for item in value.members
        ),
    )


# ---------------------------------------------------------------- SyncGroup


def read_sync_request(entity: Any, _version: int) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=entity.group_id,
        generation=entity.generation_id,
        member_id=entity.member_id,
        assignments=tuple(
            MemberAssignment(item.member_id, item.assignment) for item in rows(entity.assignments)
        ),
        group_instance_id=getattr(entity, "group_instance_id", None),
        protocol_type=getattr(entity, "protocol_type", None),
        protocol=getattr(entity, "protocol_name", None),
    )


def write_sync_request(value: SyncGroupRequest, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.SyncGroupRequest,
        group_id=value.group_id,
        generation_id=value.generation,
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
        protocol_type=value.protocol_type,
        protocol_name=value.protocol,
        assignments=tuple(
            types.SyncGroupRequestAssignment(member_id=item.member_id, assignment=item.assignment)
            for item in value.assignments
        ),
    )


def read_sync_response(entity: Any, _request: SyncGroupRequest) -> SyncGroupResponse:
    return SyncGroupResponse(
        error=read_error(entity.error_code),
        assignment=entity.assignment,
        protocol_type=getattr(entity, "protocol_type", None),
        protocol=getattr(entity, "protocol_name", None),
    )


def write_sync_response(value: SyncGroupResponse, schema: Schema) -> Any:
    return make(
        schema.types.SyncGroupResponse,
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        protocol_type=fitting(value.protocol_type),
        protocol_name=fitting(value.protocol),
        assignment=value.assignment,
    )


# ---------------------------------------------------------------- Heartbeat


def read_heartbeat_request(entity: Any, _version: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=entity.group_id,
        generation=entity.generation_id,
        member_id=entity.member_id,
        group_instance_id=getattr(entity, "group_instance_id", None),
    )


def write_heartbeat_request(value: HeartbeatRequest, schema: Schema) -> Any:
    return make(
        schema.types.HeartbeatRequest,
        group_id=value.group_id,
        generation_id=value.generation,
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
    )


def read_heartbeat_response(entity: Any, _request: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse(read_error(entity.error_code))


def write_heartbeat_response(value: HeartbeatResponse, schema: Schema) -> Any:
    return make(schema.types.HeartbeatResponse, throttle_time=NO_THROTTLE, error_code=value.error)


# ---------------------------------------------------------------- LeaveGroup


def read_leave_request(entity: Any, version: int) -> LeaveGroupRequest:
    if version < _MANY_LEAVE_VERSION:
        return LeaveGroupRequest(entity.group_id, (LeavingMember(entity.member_id),))
    return LeaveGroupRequest(
        entity.group_id,
        tuple(
            LeavingMember(item.member_id, item.group_instance_id, getattr(item, "reason", None))
            for item in rows(entity.members)
        ),
    )


def write_leave_request(value: LeaveGroupRequest, schema: Schema) -> Any:
    types = schema.types
    if schema.version < _MANY_LEAVE_VERSION:
        (member,) = value.members
        return types.LeaveGroupRequest(group_id=value.group_id, member_id=member.member_id)
    return types.LeaveGroupRequest(
        group_id=value.group_id,
        members=tuple(
            make(
                types.MemberIdentity,
                member_id=item.member_id,
                group_instance_id=item.group_instance_id,
                reason=item.reason,
            )
            for item in value.members
        ),
    )


def read_leave_response(entity: Any, _request: LeaveGroupRequest) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        read_error(entity.error_code),
        tuple(
            LeftMember(item.member_id, item.group_instance_id, read_error(item.error_code))
            for item in rows(getattr(entity, "members", ()))
        ),
    )


def write_leave_response(value: LeaveGroupResponse, schema: Schema) -> Any:
    types = schema.types
    if schema.version < _MANY_LEAVE_VERSION:
        error = value.error
        if error is ErrorCode.NONE and value.members:
            error = value.members[0].error
        return make(types.LeaveGroupResponse, throttle_time=NO_THROTTLE, error_code=error)
    return types.LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        members=tuple(
            types.MemberResponse(
                member_id=fitting(item.member_id),
                group_instance_id=fitting(item.group_instance_id),
                error_code=item.error,
            )
            for item in value.members
        ),
    )


# ---------------------------------------------------------------- DescribeGroups


def read_describe_groups_request(entity: Any, _version: int) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(rows(entity.groups))


def write_describe_groups_request(value: DescribeGroupsRequest, schema: Schema) -> Any:
    return make(
        schema.types.DescribeGroupsRequest,
        groups=value.group_ids,
        include_authorized_operations=False,
    )


def read_describe_groups_response(
    entity: Any, _request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        tuple(
            DescribedGroup(
                error=read_error(group.error_code),
                group_id=group.group_id,
                state=group.group_state,
                protocol_type=group.protocol_type,
                protocol=group.protocol_data,
                members=tuple(
                    DescribedMember(
                        member_id=item.member_id,
                        group_instance_id=getattr(item, "group_instance_id", None),
                        client_id=item.client_id,
                        client_host=item.client_host,
                        metadata=item.member_metadata,
                        assignment=item.member_assignment,
                    )
                    for item in rows(group.members)
                ),
            )
            for group in rows(entity.groups)
        )
    )


def write_describe_groups_response(value: DescribeGroupsResponse, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.DescribeGroupsResponse,
        throttle_time=NO_THROTTLE,
        groups=tuple(
            make(
                types.DescribedGroup,
                error_code=group.error,
                group_id=fitting(group.group_id),
                group_state=group.state,
                protocol_type=fitting(group.protocol_type),
                protocol_data=fitting(group.protocol),
                members=tuple(_described_member(item, types) for item in group.members),
                authorized_operations=NO_OPERATIONS,
            )
            for group in value.groups
        ),
    )


def _described_member(value: DescribedMember, types: Any) -> Any:
    return make(
        types.DescribedGroupMember,
        member_id=fitting(value.member_id),
        group_instance_id=fitting(value.group_instance_id),
        client_id=fitting(value.client_id),
        client_host=fitting(value.client_host),
        member_metadata=value.metadata,
        member_assignment=value.assignment,
    )


# ---------------------------------------------------------------- ListGroups


def read_list_groups_request(entity: Any, _version: int) -> ListGroupsRequest:
    return ListGroupsRequest(
        rows(getattr(entity, "states_filter", ())), rows(getattr(entity, "types_filter", ()))
    )


def write_list_groups_request(value: ListGroupsRequest, schema: Schema) -> Any:
    return make(
        schema.types.ListGroupsRequest, states_filter=value.states, types_filter=value.types
    )


def read_list_groups_response(entity: Any, _request: ListGroupsRequest) -> ListGroupsResponse:
    return ListGroupsResponse(
        read_error(entity.error_code),
        tuple(
            ListedGroup(
                group_id=item.group_id,
                protocol_type=item.protocol_type,
                state=getattr(item, "group_state", ""),
                group_type=getattr(item, "group_type", ""),
            )
            for item in rows(entity.groups)
        ),
    )


def write_list_groups_response(value: ListGroupsResponse, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.ListGroupsResponse,
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        groups=tuple(
            make(
                types.ListedGroup,
                group_id=fitting(item.group_id),
                protocol_type=fitting(item.protocol_type),
                group_state=item.state,
                group_type=item.group_type,
            )
            for item in value.groups
        ),
    )


# ---------------------------------------------------------------- DeleteGroups


def read_delete_groups_request(entity: Any, _version: int) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(rows(entity.groups_names))


def write_delete_groups_request(value: DeleteGroupsRequest, schema: Schema) -> Any:
    return schema.types.DeleteGroupsRequest(groups_names=value.group_ids)


def read_delete_groups_response(entity: Any, _request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        tuple(
            DeletedGroup(item.group_id, read_error(item.error_code))
            for item in rows(entity.results)
        )
    )


def write_delete_groups_response(value: DeleteGroupsResponse, schema: Schema) -> Any:
    types = schema.types
    return types.DeleteGroupsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            types.DeletableGroupResult(group_id=fitting(item.group_id), error_code=item.error)
            for item in value.groups
        ),
    )
