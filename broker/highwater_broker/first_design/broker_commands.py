"""This broker commands itself, through its queue and the leader paths: the first design.

Source: the first design (V2); docs/decisions/0010-who-commands-a-replica.md.
"""

from __future__ import annotations

from highwater_broker.commander import CommanderParts
from highwater_broker.first_design.added_partitions import AddedPartitions
from highwater_broker.first_design.asked_replicas import AskedReplicas
from highwater_broker.first_design.cluster_view import ClusterView
from highwater_broker.first_design.config_requests import ConfigRequests
from highwater_broker.first_design.elector import Elector
from highwater_broker.first_design.move_requests import MoveRequests
from highwater_broker.first_design.queues import StateChangeQueues
from highwater_broker.first_design.told_once import ToldOnce
from highwater_broker.first_design.topics import TopicWork
from highwater_broker.first_design.work import FolderFailed, FoldersChanged
from highwater_broker.isr_writer import ConditionalWriter, IsrWriter
from highwater_broker.kafka_api.rest_of_broker import Response
from highwater_core.admin_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ListReassignmentsRequest,
    ListReassignmentsResponse,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_core.messages import (
    CommandResponse,
    ControllerCommand,
    ControllerResponse,
    ControlRequest,
    ControlResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    HoldRequest,
    InspectRequest,
    LeaderAndIsrRequest,
    SetFailPointRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    refusal,
)
from highwater_core.ports import CallFailed, CoordinationError
from highwater_core.runtime import Future, TimedOut
from highwater_core.topic_plans import TopicDefaults


class _NobodyIsTold:
    """The others watch the partitions' states themselves."""

    def changed(self, topic_partition: TopicPartition) -> None:
        """Do nothing."""


class BrokerCommands:
    """The commander of brokers without a controller."""

    def __init__(self, parts: CommanderParts) -> None:
        self._parts = parts
        told = ToldOnce(parts.ports.trace)
        view = ClusterView(parts.session, told)
        most = parts.settings.state_change_queue_max_requests
        queues = StateChangeQueues(parts.session, told, most)
        defaults = TopicDefaults(
            parts.settings.num_partitions, parts.settings.default_replication_factor
        )
        self._topics = TopicWork(parts.session, parts.ports, view, queues, defaults)
        self._partitions = AddedPartitions(parts.session, parts.ports.trace, view, queues)
        self._configs = ConfigRequests(parts.session, parts.ports.trace, view, told)
        asked = AskedReplicas(parts.session, view, told)
        self._moves = MoveRequests(parts.session, parts.ports.trace, view, asked)
        self._elector = Elector(parts, view, queues, asked, told)
        self.isr_writer: IsrWriter = ConditionalWriter(
            parts.settings.broker_id,
            parts.ports.runtime,
            parts.session,
            _NobodyIsTold(),
            parts.fail_points,
        )
        self.on_event = self._elector.on_event

    def start(self) -> None:
        self._parts.scope.spawn("Elector", self._elector.run())
        self._parts.scope.spawn("IsrWriter", self.isr_writer.run())

    async def handle(self, request: ControlRequest) -> ControlResponse:
        """Answer; commands, which only a controller would send, are refused."""
        match request:
            case InspectRequest():
                return self._parts.snapshot()
            case SetFailPointRequest():
                return self._parts.fail_points.answer(request)
            case (
                LeaderAndIsrRequest()
                | StopReplicaRequest()
                | UpdateMetadataRequest()
                | HoldRequest()
            ):
                return CommandResponse(ErrorCode.INVALID_REQUEST)
        return refusal(request, ErrorCode.NOT_CONTROLLER)

    async def call(
        self, request: ControllerCommand, response_type: type[Response], timeout_ms: int
    ) -> Response:
        answer: Future[ControllerResponse | CallFailed] = self._parts.ports.runtime.future()
        self._parts.scope.spawn("TopicWork", self._answer(request, answer))
        try:
            response = await answer.wait(timeout_ms)
        except TimedOut:
            raise CallFailed(f"ZooKeeper did not answer within {timeout_ms} ms") from None
        if isinstance(response, response_type):
            return response
        if isinstance(response, CallFailed):
            raise response
        raise CallFailed(f"{type(request).__name__} was answered with {type(response).__name__}")

    async def _answer(
        self, request: ControllerCommand, answer: Future[ControllerResponse | CallFailed]
    ) -> None:
        try:
            answer.set(await self._carry_out(request))
        except CoordinationError as fault:
            answer.set(CallFailed(f"ZooKeeper: {type(fault).__name__} {fault}"))

    async def _carry_out(self, request: ControllerCommand) -> ControllerResponse:
        match request:
            case CreateTopicsRequest():
                created = await self._topics.create(
                    request.topics, validate_only=request.validate_only
                )
                return CreateTopicsResponse(ErrorCode.NONE, tuple(created))
            case DeleteTopicsRequest():
                removed = await self._topics.delete(request.names)
                return DeleteTopicsResponse(ErrorCode.NONE, tuple(removed))
            case CreatePartitionsRequest():
                expanded = await self._partitions.add(
                    request.topics, validate_only=request.validate_only
                )
                return CreatePartitionsResponse(ErrorCode.NONE, tuple(expanded))
            case AlterConfigsRequest():
                altered = await self._configs.alter(
                    request.configs, validate_only=request.validate_only
                )
                return AlterConfigsResponse(ErrorCode.NONE, tuple(altered))
            case AlterReassignmentsRequest():
                asked = await self._moves.alter(request.partitions)
                return AlterReassignmentsResponse(ErrorCode.NONE, tuple(asked))
            case ListReassignmentsRequest():
                ongoing = await self._moves.ongoing(request.partitions)
                return ListReassignmentsResponse(ErrorCode.NONE, ongoing)
        return refusal(request, ErrorCode.UNSUPPORTED_VERSION)

    def folder_failed(self, name: str) -> None:
        self._elector.note(FolderFailed(name))

    def folders_changed(self) -> None:
        self._elector.note(FoldersChanged())

    async def hand_over(self) -> None:
        """Do nothing: when the session ends, the leader paths vanish, and others run."""
