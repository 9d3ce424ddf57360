"""The control plane's messages as bytes: core values to protobuf and back, by gRPC method path.

METHODS lists every unary method, so that a server can register them all with bytes in and bytes
out. WatchTrace, the one stream, has functions of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from google.protobuf.message import DecodeError, Message

from highwater_core import admin_messages as asked
from highwater_core import messages as core
from highwater_core.check import check
from highwater_core.events import TraceEvent
from highwater_core.messages import ControlRequest, ControlResponse
from highwater_core.traces import encode_event
from highwater_wire import control_admin as admin
from highwater_wire import control_broker as broker
from highwater_wire import control_controller as controller
from highwater_wire import control_inspect as inspect
from highwater_wire.control_fields import MalformedControlMessage, require
from highwater_wire.v1 import broker_control_pb2, controller_control_pb2, inspect_pb2

__all__ = [
    "BROKER_SERVICE",
    "CONTROLLER_SERVICE",
    "INSPECT_SERVICE",
    "METHODS",
    "WATCH_TRACE",
    "ControlMethod",
    "MalformedControlMessage",
    "decode_control_request",
    "decode_control_response",
    "decode_trace_line",
    "decode_watch_trace",
    "encode_control_request",
    "encode_control_response",
    "encode_trace_line",
    "encode_watch_trace",
]

BROKER_SERVICE = "highwater.v1.BrokerControl"
CONTROLLER_SERVICE = "highwater.v1.ControllerControl"
INSPECT_SERVICE = "highwater.v1.Inspect"
WATCH_TRACE = f"/{INSPECT_SERVICE}/WatchTrace"


@dataclass(frozen=True, slots=True)
class _Form:
    """One message type: its core value, its protobuf class and the way between them."""

    value_type: type[Any]
    message_type: type[Message]
    write: Callable[[Any], Message]
    read: Callable[[Any], Any]

    def encode(self, value: Any) -> bytes:
        check(
            type(value) is self.value_type,
            f"{type(value).__name__} where {self.value_type.__name__} belongs",
        )
        return self.write(value).SerializeToString(deterministic=True)

    def decode(self, data: bytes) -> Any:
        message = self.message_type()
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            raise MalformedControlMessage(f"{self.value_type.__name__}: {error}") from error
        return self.read(message)


@dataclass(frozen=True, slots=True)
class ControlMethod:
    """A unary gRPC method: its service, its name, and how its two messages are coded."""

    service: str
    name: str
    request: _Form
    response: _Form

    @property
    def path(self) -> str:
        """The method's path in HTTP/2, /package.Service/Method."""
        return f"/{self.service}/{self.name}"

    @property
    def request_type(self) -> type[Any]:
        return self.request.value_type

    @property
    def response_type(self) -> type[Any]:
        return self.response.value_type


_COMMAND_RESPONSE = _Form(
    core.CommandResponse,
    broker_control_pb2.CommandResponse,
    broker.write_command_response,
    broker.read_command_response,
)

_ALL = (
    ControlMethod(
        BROKER_SERVICE,
        "LeaderAndIsr",
        _Form(
            core.LeaderAndIsrRequest,
            broker_control_pb2.LeaderAndIsrRequest,
            broker.write_leader_and_isr,
            broker.read_leader_and_isr,
        ),
        _COMMAND_RESPONSE,
    ),
    ControlMethod(
        BROKER_SERVICE,
        "StopReplica",
        _Form(
            core.StopReplicaRequest,
            broker_control_pb2.StopReplicaRequest,
            broker.write_stop_replica,
            broker.read_stop_replica,
        ),
        _COMMAND_RESPONSE,
    ),
    ControlMethod(
        BROKER_SERVICE,
        "UpdateMetadata",
        _Form(
            core.UpdateMetadataRequest,
            broker_control_pb2.UpdateMetadataRequest,
            broker.write_update_metadata,
            broker.read_update_metadata,
        ),
        _COMMAND_RESPONSE,
    ),
    ControlMethod(
        BROKER_SERVICE,
        "Hold",
        _Form(
            core.HoldRequest,
            broker_control_pb2.HoldRequest,
            broker.write_hold,
            broker.read_hold,
        ),
        _COMMAND_RESPONSE,
    ),
    ControlMethod(
        CONTROLLER_SERVICE,
        "CreateTopics",
        _Form(
            core.CreateTopicsRequest,
            controller_control_pb2.CreateTopicsRequest,
            controller.write_create_topics,
            controller.read_create_topics,
        ),
        _Form(
            core.CreateTopicsResponse,
            controller_control_pb2.CreateTopicsResponse,
            controller.write_create_topics_response,
            controller.read_create_topics_response,
        ),
    ),
    ControlMethod(
        CONTROLLER_SERVICE,
        "DeleteTopics",
        _Form(
            core.DeleteTopicsRequest,
            controller_control_pb2.DeleteTopicsRequest,
            controller.write_delete_topics,
            controller.read_delete_topics,
        ),
        _Form(
            core.DeleteTopicsResponse,
            controller_control_pb2.DeleteTopicsResponse,
            controller.write_delete_topics_response,
            controller.read_delete_topics_response,
        ),
    ),
    ControlMethod(
        CONTROLLER_SERVICE,
        "CreatePartitions",
        _Form(
            asked.CreatePartitionsRequest,
            controller_control_pb2.CreatePartitionsRequest,
            admin.write_create_partitions,
            admin.read_create_partitions,
        ),
        _Form(
            asked.CreatePartitionsResponse,
            controller_control_pb2.CreatePartitionsResponse,
            admin.write_create_partitions_response,
            admin.read_create_partitions_response,
        ),
    ),
    ControlMethod(
        CONTROLLER_SERVICE,
        "ElectLeaders",
        _Form(
            asked.ElectLeadersRequest,
            controller_control_pb2.ElectLeadersRequest,
            admin.write_elect_leaders,
            admin.read_elect_leaders,
        ),
        _Form(
            asked.ElectLeadersResponse,
            controller_control_pb2.ElectLeadersResponse,
            admin.write_elect_leaders_response,
            admin.read_elect_leaders_response,
        ),
    ),
    ControlMethod(
        CONTROLLER_SERVICE,
        "AlterReassignments",
        _Form(
            asked.AlterReassignmentsRequest,
            controller_control_pb2.AlterReassignmentsRequest,
            admin.write_alter_reassignments,
            admin.read_alter_reassignments,
        ),
        _Form(
            asked.AlterReassignmentsResponse,
            controller_control_pb2.AlterReassignmentsResponse,
            admin.write_alter_reassignments_response,
            admin.read_alter_reassignments_response,
        ),
    ),
    ControlMethod(
        CONTROLLER_SERVICE,
        "ListReassignments",
        _Form(
            asked.ListReassignmentsRequest,
            controller_control_pb2.ListReassignmentsRequest,
            admin.write_list_reassignments,
            admin.read_list_reassignments,
        ),
        _Form(
            asked.ListReassignmentsResponse,
            controller_control_pb2.ListReassignmentsResponse,
            admin.write_list_reassignments_response,
            admin.read_list_reassignments_response,
        ),
    ),
    ControlMethod(
        CONTROLLER_SERVICE,
        "AlterConfigs",
        _Form(
            asked.AlterConfigsRequest,
            controller_control_pb2.AlterConfigsRequest,
            admin.write_alter_configs,
            admin.read_alter_configs,
        ),
        _Form(
            asked.AlterConfigsResponse,
            controller_control_pb2.AlterConfigsResponse,
            admin.write_alter_configs_response,
            admin.read_alter_configs_response,
        ),
    ),
    ControlMethod(
        CONTROLLER_SERVICE,
        "ControlledShutdown",
        _Form(
            core.ControlledShutdownRequest,
            controller_control_pb2.ControlledShutdownRequest,
            controller.write_controlled_shutdown,
            controller.read_controlled_shutdown,
        ),
        _Form(
            core.ControlledShutdownResponse,
            controller_control_pb2.ControlledShutdownResponse,
            controller.write_controlled_shutdown_response,
            controller.read_controlled_shutdown_response,
        ),
    ),
    ControlMethod(
        CONTROLLER_SERVICE,
        "AlterPartition",
        _Form(
            core.AlterPartitionRequest,
            controller_control_pb2.AlterPartitionRequest,
            controller.write_alter_partition,
            controller.read_alter_partition,
        ),
        _Form(
            core.AlterPartitionResponse,
            controller_control_pb2.AlterPartitionResponse,
            controller.write_alter_partition_response,
            controller.read_alter_partition_response,
        ),
    ),
    ControlMethod(
        INSPECT_SERVICE,
        "Snapshot",
        _Form(
            core.InspectRequest,
            inspect_pb2.InspectRequest,
            inspect.write_inspect,
            inspect.read_inspect,
        ),
        _Form(
            core.NodeSnapshot,
            inspect_pb2.NodeSnapshot,
            inspect.write_snapshot,
            inspect.read_snapshot,
        ),
    ),
    ControlMethod(
        INSPECT_SERVICE,
        "SetFailPoint",
        _Form(
            core.SetFailPointRequest,
            inspect_pb2.SetFailPointRequest,
            inspect.write_set_fail_point,
            inspect.read_set_fail_point,
        ),
        _Form(
            core.SetFailPointResponse,
            inspect_pb2.SetFailPointResponse,
            inspect.write_set_fail_point_response,
            inspect.read_set_fail_point_response,
        ),
    ),
)

METHODS: dict[str, ControlMethod] = {method.path: method for method in _ALL}
"""Every unary method by its path."""

_BY_REQUEST_TYPE = {method.request_type: method for method in _ALL}


def _method(path: str) -> ControlMethod:
    method = METHODS.get(path)
    if method is None:
        raise MalformedControlMessage(f"no method {path!r}")
    return method


def encode_control_request(request: ControlRequest) -> tuple[str, bytes]:
    """Return the path of the method that takes the request, and the request as bytes."""
    method = _BY_REQUEST_TYPE[type(request)]
    return method.path, method.request.encode(request)


def decode_control_request(method_path: str, data: bytes) -> ControlRequest:
    """Return the request.

    Raises:
        MalformedControlMessage: no such method, or the bytes are not its documented request.
    """
    request: ControlRequest = _method(method_path).request.decode(data)
    return request


def encode_control_response(method_path: str, response: ControlResponse) -> bytes:
    """Return the response of the method as bytes; a response of another method is a bug."""
    return METHODS[method_path].response.encode(response)


def decode_control_response(method_path: str, data: bytes) -> ControlResponse:
    """Return the response.

    Raises:
        MalformedControlMessage: no such method, or the bytes are not its documented response.
    """
    response: ControlResponse = _method(method_path).response.decode(data)
    return response


# ---------------------------------------------------------------- WatchTrace

_TRACE_EVENT = msgspec.json.Decoder(TraceEvent)


def encode_watch_trace(from_seq: int) -> bytes:
    """Return the request for the node's trace events from `from_seq` on."""
    return inspect_pb2.WatchTraceRequest(from_seq=from_seq).SerializeToString()


def decode_watch_trace(data: bytes) -> int:
    """Return the first seq that the watcher wants.

    Raises:
        MalformedControlMessage: the bytes are not the documented request.
    """
    message = inspect_pb2.WatchTraceRequest()
    _parse(message, data)
    require(message.from_seq >= 0, f"from_seq {message.from_seq}")
    return message.from_seq


def encode_trace_line(event: TraceEvent) -> bytes:
    """Return one message of the stream: the event's line of JSON in a bytes field."""
    return inspect_pb2.TraceLine(json=encode_event(event)).SerializeToString()


def decode_trace_line(data: bytes) -> TraceEvent:
    """Return the event of one message of the stream.

    Raises:
        MalformedControlMessage: not the documented message, or its JSON is no trace event.
    """
    message = inspect_pb2.TraceLine()
    _parse(message, data)
    try:
        return _TRACE_EVENT.decode(message.json)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedControlMessage(f"a trace line: {error}") from error


def _parse(message: Message, data: bytes) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise MalformedControlMessage(f"{type(message).__name__}: {error}") from error
