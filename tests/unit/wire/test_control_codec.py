"""The control plane's messages survive protobuf both ways; garbage is reported as such."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater_core import admin_messages as asked
from highwater_core import messages
from highwater_core.admin_messages import TopicResult
from highwater_core.check import BugFound
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_CONTROLLER_EPOCH, Endpoint, TopicPartition
from highwater_wire import control
from highwater_wire.v1 import (
    broker_control_pb2,
    common_pb2,
    controller_control_pb2,
    inspect_pb2,
)

FEW = settings(max_examples=20, deadline=None, derandomize=True, database=None)
PROTO = Path(__file__).parents[3] / "proto" / "highwater_wire" / "v1"
FILES = (broker_control_pb2, common_pb2, controller_control_pb2, inspect_pb2)

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=8)
node_lists = st.lists(int32s, max_size=4).map(tuple)
partitions = st.builds(TopicPartition, st.text(min_size=1, max_size=8), st.integers(0, 2**31 - 1))
errors = st.sampled_from(ErrorCode)
hosts = st.from_regex(r"[a-zA-Z0-9._-]{1,8}", fullmatch=True)
endpoints = st.builds(Endpoint, hosts, st.integers(1, 65_535))


PARTITION = {"topic": "t", "partition": 0}


def several(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=3).map(tuple)


brokers = st.builds(
    messages.BrokerEndpoints, int32s, int64s, endpoints, endpoints, endpoints, endpoints
)
commands = st.builds(messages.CommandResponse, errors, several(st.tuples(partitions, errors)))
topic_results = several(st.builds(TopicResult, texts, errors, texts))
partition_results = several(st.builds(asked.PartitionResult, partitions, errors, texts))
some_or_all = st.none() | several(partitions)
entities = st.sampled_from(asked.ConfigEntity)

REQUESTS: dict[type[Any], st.SearchStrategy[Any]] = {
    messages.LeaderAndIsrRequest: st.builds(
        messages.LeaderAndIsrRequest,
        controller_id=int32s,
        controller_epoch=int32s,
        broker_epoch=int64s,
        is_init=st.booleans(),
        partitions=several(
            st.builds(
                messages.LeaderAndIsrPartition,
                topic_partition=partitions,
                leader=int32s,
                leader_epoch=int32s,
                isr=node_lists,
                partition_epoch=int64s,
                assigned_replicas=node_lists,
                is_new=st.booleans(),
                topic_id=texts,
            )
        ),
        live_leaders=several(brokers),
        ack_timeout_ms=int32s,
        correlation_id=int32s,
    ),
    messages.StopReplicaRequest: st.builds(
        messages.StopReplicaRequest,
        controller_id=int32s,
        controller_epoch=int32s,
        broker_epoch=int64s,
        partitions=several(
            st.builds(messages.StopReplicaPartition, partitions, st.booleans(), int32s, texts)
        ),
        ack_timeout_ms=int32s,
        correlation_id=int32s,
    ),
    messages.UpdateMetadataRequest: st.builds(
        messages.UpdateMetadataRequest,
        controller_id=int32s,
        controller_epoch=int32s,
        broker_epoch=int64s,
        live_brokers=several(brokers),
        partitions=several(
            st.builds(
                messages.PartitionMetadata,
                partitions,
                int32s,
                int32s,
                node_lists,
                node_lists,
                int64s,
                texts,
            )
        ),
        is_full=st.booleans(),
        correlation_id=int32s,
    ),
    messages.CreateTopicsRequest: st.builds(
        messages.CreateTopicsRequest,
        topics=several(
            st.builds(
                messages.NewTopic,
                texts,
                int32s,
                int32s,
                several(node_lists),
                several(st.tuples(texts, texts)),
            )
        ),
        validate_only=st.booleans(),
        timeout_ms=int32s,
    ),
    messages.DeleteTopicsRequest: st.builds(messages.DeleteTopicsRequest, several(texts), int32s),
    asked.CreatePartitionsRequest: st.builds(
        asked.CreatePartitionsRequest,
        several(st.builds(asked.NewPartitions, texts, int32s, several(node_lists))),
        st.booleans(),
        int32s,
    ),
    asked.ElectLeadersRequest: st.builds(
        asked.ElectLeadersRequest, st.sampled_from(asked.ElectionType), some_or_all, int32s
    ),
    asked.AlterReassignmentsRequest: st.builds(
        asked.AlterReassignmentsRequest,
        several(st.builds(asked.ReassignmentItem, partitions, st.none() | node_lists)),
        int32s,
    ),
    asked.ListReassignmentsRequest: st.builds(asked.ListReassignmentsRequest, some_or_all, int32s),
    asked.AlterConfigsRequest: st.builds(
        asked.AlterConfigsRequest,
        several(
            st.builds(
                asked.AlteredConfig,
                entities,
                texts,
                several(
                    st.builds(
                        asked.ConfigChange, texts, st.sampled_from(asked.ConfigOperation), texts
                    )
                ),
                st.booleans(),
            )
        ),
        st.booleans(),
        int32s,
    ),
    messages.ControlledShutdownRequest: st.builds(
        messages.ControlledShutdownRequest, int32s, int64s, int32s
    ),
    messages.AlterPartitionRequest: st.builds(
        messages.AlterPartitionRequest,
        int32s,
        int64s,
        several(
            st.builds(
                messages.AlterPartitionItem,
                partitions,
                int32s,
                several(st.builds(messages.IsrMember, int32s, int64s)),
                int64s,
                texts,
            )
        ),
        int32s,
    ),
    messages.HoldRequest: st.builds(messages.HoldRequest, st.integers(0, 2**31 - 1)),
    messages.InspectRequest: st.just(messages.InspectRequest()),
    messages.SetFailPointRequest: st.builds(
        messages.SetFailPointRequest,
        texts,
        st.sampled_from(messages.FailPointAction),
        int32s,
        int32s,
    ),
}

replicas = st.builds(
    messages.ReplicaSnapshot,
    topic_partition=partitions,
    role=texts,
    leader=int32s,
    leader_epoch=int32s,
    controller_epoch=int32s,
    partition_epoch=int64s,
    high_watermark=int64s,
    log_start_offset=int64s,
    log_end_offset=int64s,
    isr=node_lists,
    assigned_replicas=node_lists,
    followers=several(st.builds(messages.FollowerView, int32s, int64s, int64s)),
    epoch_cache=several(st.tuples(int32s, int64s)),
    topic_id=texts,
)
RESPONSES: dict[type[Any], st.SearchStrategy[Any]] = {
    messages.CommandResponse: commands,
    messages.CreateTopicsResponse: st.builds(messages.CreateTopicsResponse, errors, topic_results),
    messages.DeleteTopicsResponse: st.builds(messages.DeleteTopicsResponse, errors, topic_results),
    asked.CreatePartitionsResponse: st.builds(
        asked.CreatePartitionsResponse, errors, topic_results
    ),
    asked.ElectLeadersResponse: st.builds(asked.ElectLeadersResponse, errors, partition_results),
    asked.AlterReassignmentsResponse: st.builds(
        asked.AlterReassignmentsResponse, errors, partition_results
    ),
    asked.ListReassignmentsResponse: st.builds(
        asked.ListReassignmentsResponse,
        errors,
        several(st.builds(asked.OngoingReassignment, partitions, *(node_lists,) * 3)),
    ),
    asked.AlterConfigsResponse: st.builds(
        asked.AlterConfigsResponse,
        errors,
        several(st.builds(asked.ConfigResult, entities, texts, errors, texts)),
    ),
    messages.ControlledShutdownResponse: st.builds(
        messages.ControlledShutdownResponse, errors, several(partitions)
    ),
    messages.AlterPartitionResponse: st.builds(
        messages.AlterPartitionResponse,
        errors,
        several(
            st.builds(
                messages.AlterPartitionResult,
                partitions,
                errors,
                int32s,
                int32s,
                node_lists,
                int64s,
            )
        ),
    ),
    messages.NodeSnapshot: st.builds(
        messages.NodeSnapshot,
        node_id=int32s,
        kind=texts,
        incarnation=int64s,
        preset=texts,
        controller_epoch=int32s,
        broker_epoch=int64s,
        active_controller=st.booleans(),
        controller_id=int32s,
        live_brokers=node_lists,
        replicas=several(replicas),
        tasks=several(st.builds(messages.TaskSnapshot, texts, int32s)),
        resident_bytes=int64s,
        counters=several(st.tuples(texts, int64s)),
        unanswered_commands=several(st.builds(messages.UnansweredCommand, int32s, texts, int64s)),
    ),
    messages.SetFailPointResponse: st.builds(messages.SetFailPointResponse, errors),
}
METHODS = [pytest.param(method, id=method.name) for method in control.METHODS.values()]


@pytest.mark.parametrize("method", METHODS)
def test_request_survives_protobuf(method: control.ControlMethod) -> None:
    @FEW
    @given(REQUESTS[method.request_type])
    def check_one(request: Any) -> None:
        path, data = control.encode_control_request(request)
        assert path == method.path
        assert control.decode_control_request(path, data) == request

    check_one()


@pytest.mark.parametrize("method", METHODS)
def test_response_survives_protobuf(method: control.ControlMethod) -> None:
    @FEW
    @given(RESPONSES[method.response_type])
    def check_one(response: Any) -> None:
        data = control.encode_control_response(method.path, response)
        assert control.decode_control_response(method.path, data) == response

    check_one()


@pytest.mark.parametrize("method", METHODS)
def test_garbage_gives_a_value_or_malformed(method: control.ControlMethod) -> None:
    @FEW
    @given(st.binary(max_size=60), REQUESTS[method.request_type], st.integers(0, 200))
    def check_one(garbage: bytes, request: Any, cut: int) -> None:
        whole = control.encode_control_request(request)[1]
        for data in (garbage, whole[:cut], whole[:cut] + garbage):
            try:
                decoded = control.decode_control_request(method.path, data)
            except control.MalformedControlMessage:
                continue
            assert type(decoded) is method.request_type

    check_one()


def test_every_request_type_has_exactly_one_method() -> None:
    kinds = [method.request_type for method in control.METHODS.values()]
    assert sorted(kind.__name__ for kind in kinds) == sorted(
        kind.__name__ for kind in messages.ControlRequest.__args__
    )


def test_methods_and_their_messages_are_those_of_the_proto_services() -> None:
    services = {
        f"/{service.full_name}/{rpc.name}": (rpc.input_type.name, rpc.output_type.name)
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for rpc in service.methods
    }
    assert services.pop(control.WATCH_TRACE) == ("WatchTraceRequest", "TraceLine")
    assert services == {
        path: (method.request.message_type.__name__, method.response.message_type.__name__)
        for path, method in control.METHODS.items()
    }


def test_unknown_method_is_malformed() -> None:
    with pytest.raises(control.MalformedControlMessage, match="no method"):
        control.decode_control_request("/highwater.v1.BrokerControl/Reboot", b"")


def test_response_of_another_method_is_a_bug() -> None:
    path = f"/{control.INSPECT_SERVICE}/Snapshot"
    with pytest.raises(BugFound):
        control.encode_control_response(path, messages.CommandResponse(ErrorCode.NONE))


def test_unknown_error_code_becomes_unknown_server_error() -> None:
    data = broker_control_pb2.CommandResponse(version_id=1, error_code=9999).SerializeToString()
    path = f"/{control.BROKER_SERVICE}/StopReplica"
    decoded = control.decode_control_response(path, data)
    assert decoded == messages.CommandResponse(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_unknown_fields_of_a_newer_peer_are_skipped() -> None:
    path, data = control.encode_control_request(messages.ControlledShutdownRequest(1, 7))  # type: ignore[arg-type]
    newer = data + b"\xfa\x07\x01x"  # field 127, one byte
    assert control.decode_control_request(path, newer) == messages.ControlledShutdownRequest(1, 7)  # type: ignore[arg-type]


def test_a_broker_of_an_earlier_version_tells_no_controller_epoch() -> None:
    path, data = control.encode_control_request(messages.ControlledShutdownRequest(1, 7, 5))  # type: ignore[arg-type]
    earlier = controller_control_pb2.ControlledShutdownRequest.FromString(data)
    earlier.ClearField("controller_epoch")
    request = control.decode_control_request(path, earlier.SerializeToString())
    assert request == messages.ControlledShutdownRequest(1, 7, NO_CONTROLLER_EPOCH)  # type: ignore[arg-type]


def test_unknown_fail_point_action_is_malformed() -> None:
    data = b"\x0a\x01p\x10\x63"  # name "p", action 99
    with pytest.raises(control.MalformedControlMessage, match="action 99"):
        control.decode_control_request(f"/{control.INSPECT_SERVICE}/SetFailPoint", data)


@pytest.mark.parametrize(
    ("name", "message", "why"),
    [
        ("ElectLeaders", {"election_type": 2}, "ElectionType 2"),
        ("ElectLeaders", {"all_partitions": True, "partitions": [PARTITION]}, "some of them named"),
        (
            "AlterReassignments",
            {"partitions": [{"topic_partition": PARTITION, "is_cancelled": True, "replicas": [1]}]},
            "given up, and replicas named",
        ),
        ("ListReassignments", {"partitions": [{"topic": "t", "partition": -1}]}, "partition -1"),
        ("AlterConfigs", {"configs": [{"entity": 3}]}, "ConfigEntity 3"),
        (
            "AlterConfigs",
            {"configs": [{"entity": 2, "changes": [{"operation": 9}]}]},
            "ConfigOperation 9",
        ),
    ],
)
def test_admin_request_that_contradicts_itself_is_malformed(
    name: str, message: dict[str, Any], why: str
) -> None:
    data = getattr(controller_control_pb2, f"{name}Request")(**message).SerializeToString()
    with pytest.raises(control.MalformedControlMessage, match=why):
        control.decode_control_request(f"/{control.CONTROLLER_SERVICE}/{name}", data)


# ---------------------------------------------------------------- the trace's stream


def test_trace_event_survives_the_stream() -> None:
    event = TraceEvent(
        ts_ns=5,
        node=1,
        incarnation=2,
        seq=3,
        kind=EventKind.LOG_TRUNCATED,
        topic="t",
        partition=0,
        offset=7,
        detail={"from_offset": 9, "reason": "leader_epoch"},
    )
    assert control.decode_trace_line(control.encode_trace_line(event)) == event


def test_watch_request_survives_protobuf() -> None:
    assert control.decode_watch_trace(control.encode_watch_trace(12)) == 12


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        inspect_pb2.TraceLine(json=b"{}").SerializeToString(),
        inspect_pb2.TraceLine(json=b'{"kind": "\xff"}').SerializeToString(),
        inspect_pb2.TraceLine(
            json=b'{"ts_ns":1,"node":1,"incarnation":1,"seq":1,"kind":"danced"}'
        ).SerializeToString(),
    ],
)
def test_trace_line_that_is_no_event_is_malformed(data: bytes) -> None:
    with pytest.raises(control.MalformedControlMessage):
        control.decode_trace_line(data)


def test_watch_from_a_negative_seq_is_malformed() -> None:
    with pytest.raises(control.MalformedControlMessage, match="from_seq"):
        control.decode_watch_trace(inspect_pb2.WatchTraceRequest(from_seq=-1).SerializeToString())


# ---------------------------------------------------------------- the proto files themselves

V3_FIELDS = {
    "LeaderAndIsrRequest": {
        "request_type_id": 1,
        "version_id": 2,
        "client_id": 3,
        "ack_timeout_ms": 4,
        "is_init": 5,
        "partitions": 6,
    },
    "LeaderAndIsrPartition": {
        "topic_partition": 1,
        "leader": 2,
        "leader_epoch": 3,
        "isr": 4,
        "zk_version": 5,
    },
    "StopReplicaRequest": {
        "request_type_id": 1,
        "version_id": 2,
        "client_id": 3,
        "ack_timeout_ms": 4,
        "partitions": 5,
    },
    "StopReplicaPartition": {"topic_partition": 1},
    "CommandResponse": {"version_id": 1, "partition_errors": 2},
}


@pytest.mark.parametrize("name", sorted(V3_FIELDS))
def test_v3_fields_come_first_and_extensions_from_ten_on(name: str) -> None:
    fields = broker_control_pb2.DESCRIPTOR.message_types_by_name[name].fields
    numbers = {field.name: field.number for field in fields}
    v3 = {field: number for field, number in numbers.items() if number < 10}
    assert v3 == V3_FIELDS[name]


def _documented_fields(text: str) -> dict[str, dict[int, str]]:
    """Return for each message or enum its field numbers and the comments right above them."""
    found: dict[str, dict[int, str]] = {}
    block = comment = ""
    for line in text.splitlines():
        stripped = line.strip()
        if opened := re.match(r"(?:message|enum) (\w+) \{", stripped):
            block = opened[1]
            found[block] = {}
        elif stripped.startswith("//"):
            comment += stripped.removeprefix("//").strip() + " "
            continue
        elif row := re.fullmatch(r"(?:repeated )?[\w. ]+ = (\d+);", stripped):
            number = int(row[1])
            assert number not in found[block], f"{block} uses {number} twice"
            found[block][number] = comment.strip()
        comment = ""
    return found


def _is_duration(field: FieldDescriptor) -> bool:
    return "timeout" in field.name or "delay" in field.name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.DESCRIPTOR.name)
def test_every_field_has_its_own_number_and_a_comment(file: Any) -> None:
    documented = _documented_fields((PROTO / Path(file.DESCRIPTOR.name).name).read_text())
    for message in file.DESCRIPTOR.message_types_by_name.values():
        assert sorted(documented[message.name]) == sorted(f.number for f in message.fields)
        for field in message.fields:
            where = f"{message.name}.{field.name}"
            assert len(documented[message.name][field.number]) > 10, where
            assert not _is_duration(field) or field.name.endswith("_ms"), where
