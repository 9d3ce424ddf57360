"""Strategies (hypothesis) for every request and response about groups, with any values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_wire.kafka import committed_messages as committed
from highwater_wire.kafka import group_messages as groups
from highwater_wire.kafka.messages import ApiKey
from tests.support.kafka_strategies import (
    durations_ms,
    errors,
    grouped,
    int32s,
    int64s,
    optional_texts,
    since,
    texts,
    topic_names,
    tuples_of,
)

opaque = st.binary(max_size=40)


def join_requests(version: int) -> st.SearchStrategy[Any]:
    request = st.builds(
        groups.JoinGroupRequest,
        group_id=texts,
        session_timeout_ms=durations_ms,
        rebalance_timeout_ms=durations_ms,
        member_id=texts,
        protocol_type=texts,
        protocols=tuples_of(st.builds(groups.GroupProtocol, texts, opaque)),
        group_instance_id=since(version, 5, optional_texts, None),
        reason=since(version, 8, optional_texts, None),
        request_version=st.just(version),
    )
    return request if version else request.map(_with_one_timeout)


def _with_one_timeout(request: Any) -> Any:
    values = {name: getattr(request, name) for name in request.__dataclass_fields__}
    values["rebalance_timeout_ms"] = request.session_timeout_ms
    return groups.JoinGroupRequest(**values)


def join_responses(version: int) -> st.SearchStrategy[Any]:
    instance = since(version, 5, optional_texts, None)
    return st.builds(
        groups.JoinGroupResponse,
        error=errors,
        member_id=texts,
        generation=int32s,
        protocol_type=since(version, 7, optional_texts, None),
        protocol=since(version, 7, optional_texts, "range"),
        leader=texts,
        members=tuples_of(st.builds(groups.JoinedMember, texts, instance, opaque)),
        skip_assignment=since(version, 9, st.booleans(), False),
    )


def sync_requests(version: int) -> st.SearchStrategy[Any]:
    return st.builds(
        groups.SyncGroupRequest,
        group_id=texts,
        generation=int32s,
        member_id=texts,
        assignments=tuples_of(st.builds(groups.MemberAssignment, texts, opaque)),
        group_instance_id=since(version, 3, optional_texts, None),
        protocol_type=since(version, 5, optional_texts, None),
        protocol=since(version, 5, optional_texts, None),
    )


def sync_responses(version: int) -> st.SearchStrategy[Any]:
    name = since(version, 5, optional_texts, None)
    return st.builds(groups.SyncGroupResponse, errors, opaque, name, name)


def heartbeat_requests(version: int) -> st.SearchStrategy[Any]:
    instance = since(version, 3, optional_texts, None)
    return st.builds(groups.HeartbeatRequest, texts, int32s, texts, instance)


def heartbeat_responses(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(groups.HeartbeatResponse, errors)


def leave_requests(version: int) -> st.SearchStrategy[Any]:
    member = st.builds(
        groups.LeavingMember,
        member_id=texts,
        group_instance_id=since(version, 3, optional_texts, None),
        reason=since(version, 5, optional_texts, None),
    )
    members = tuples_of(member) if version >= 3 else st.tuples(member)
    return st.builds(groups.LeaveGroupRequest, texts, members)


def leave_responses(version: int) -> st.SearchStrategy[Any]:
    member = st.builds(groups.LeftMember, texts, optional_texts, errors)
    return st.builds(groups.LeaveGroupResponse, errors, since(version, 3, tuples_of(member), ()))


def describe_groups_requests(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(groups.DescribeGroupsRequest, tuples_of(texts))


def describe_groups_responses(version: int) -> st.SearchStrategy[Any]:
    instance = since(version, 4, optional_texts, None)
    member = st.builds(
        groups.DescribedMember, texts, instance, texts, texts, metadata=opaque, assignment=opaque
    )
    group = st.builds(
        groups.DescribedGroup, errors, texts, texts, texts, texts, members=tuples_of(member)
    )
    return st.builds(groups.DescribeGroupsResponse, tuples_of(group))


def list_groups_requests(version: int) -> st.SearchStrategy[Any]:
    return st.builds(
        groups.ListGroupsRequest,
        since(version, 4, tuples_of(texts), ()),
        since(version, 5, tuples_of(texts), ()),
    )


def list_groups_responses(version: int) -> st.SearchStrategy[Any]:
    group = st.builds(
        groups.ListedGroup,
        texts,
        texts,
        since(version, 4, texts, ""),
        since(version, 5, texts, ""),
    )
    return st.builds(groups.ListGroupsResponse, errors, tuples_of(group))


def delete_groups_requests(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(groups.DeleteGroupsRequest, tuples_of(texts))


def delete_groups_responses(_version: int) -> st.SearchStrategy[Any]:
    group = st.builds(groups.DeletedGroup, texts, errors)
    return st.builds(groups.DeleteGroupsResponse, tuples_of(group))


# ---------------------------------------------------------------- offsets


def commit_requests(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(
        committed.OffsetToCommit,
        topic=topic_names,
        partition=int32s,
        offset=int64s,
        leader_epoch=since(version, 6, int32s, -1),
        metadata=optional_texts,
    )
    return st.builds(
        committed.OffsetCommitRequest,
        group_id=texts,
        partitions=grouped(partition),
        generation=int32s,
        member_id=texts,
        group_instance_id=since(version, 7, optional_texts, None),
        retention_ms=durations_ms if version <= 4 else st.just(-1),
        request_version=st.just(version),
    )


committed_partitions = grouped(st.builds(committed.CommittedPartition, topic_names, int32s, errors))


def commit_responses(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(committed.OffsetCommitResponse, committed_partitions)


topic_partitions = st.builds(TopicPartition, topic_names, int32s)


def offset_fetch_requests(version: int) -> st.SearchStrategy[Any]:
    wanted = grouped(topic_partitions)
    group = st.builds(
        committed.GroupToFetch, texts, since(version, 2, st.none() | wanted, None) | wanted
    )
    if version < 2:
        group = st.builds(committed.GroupToFetch, texts, wanted)
    return st.builds(
        committed.OffsetFetchRequest,
        tuples_of(group) if version >= 8 else st.tuples(group),
        since(version, 7, st.booleans(), False),
    )


def offset_fetch_responses(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(
        committed.FetchedOffset,
        topic=topic_names,
        partition=int32s,
        offset=int64s,
        leader_epoch=since(version, 5, int32s, -1),
        metadata=optional_texts,
        error=errors,
    )
    group = st.builds(
        committed.FetchedGroup,
        texts if version >= 8 else st.just(""),
        since(version, 2, errors, ErrorCode.NONE),
        grouped(partition),
    )
    many = tuples_of(group) if version >= 8 else st.tuples(group)
    return st.builds(committed.OffsetFetchResponse, many)


def offset_delete_requests(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(committed.OffsetDeleteRequest, texts, grouped(topic_partitions))


def offset_delete_responses(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(committed.OffsetDeleteResponse, errors, committed_partitions)


Strategies = dict[ApiKey, Callable[[int], st.SearchStrategy[Any]]]

GROUP_REQUESTS: Strategies = {
    ApiKey.JOIN_GROUP: join_requests,
    ApiKey.SYNC_GROUP: sync_requests,
    ApiKey.HEARTBEAT: heartbeat_requests,
    ApiKey.LEAVE_GROUP: leave_requests,
    ApiKey.OFFSET_COMMIT: commit_requests,
    ApiKey.OFFSET_FETCH: offset_fetch_requests,
    ApiKey.OFFSET_DELETE: offset_delete_requests,
    ApiKey.DESCRIBE_GROUPS: describe_groups_requests,
    ApiKey.LIST_GROUPS: list_groups_requests,
    ApiKey.DELETE_GROUPS: delete_groups_requests,
}
GROUP_RESPONSES: Strategies = {
    ApiKey.JOIN_GROUP: join_responses,
    ApiKey.SYNC_GROUP: sync_responses,
    ApiKey.HEARTBEAT: heartbeat_responses,
    ApiKey.LEAVE_GROUP: leave_responses,
    ApiKey.OFFSET_COMMIT: commit_responses,
    ApiKey.OFFSET_FETCH: offset_fetch_responses,
    ApiKey.OFFSET_DELETE: offset_delete_responses,
    ApiKey.DESCRIBE_GROUPS: describe_groups_responses,
    ApiKey.LIST_GROUPS: list_groups_responses,
    ApiKey.DELETE_GROUPS: delete_groups_responses,
}
