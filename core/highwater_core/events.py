"""The one schema of traces, for both worlds.

A trace is a sequence of TraceEvent, in each node ordered by seq without gaps; across nodes only
causality orders events, since clocks differ. On disk: one JSON object a line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from highwater_core.ids import NO_TOPIC_ID, TopicId, TopicPartition
from highwater_core.numbers import Int32, Int64


class EventKind(StrEnum):
    """Everything a node may trace; events are in the past tense. detail keys in brackets."""

    # Any node
    NODE_STARTED = "node_started"  # [node_kind, preset, (build: its image's tag)]
    NODE_STOPPED = "node_stopped"  # [reason]
    SESSION_OPENED = "session_opened"  # [session_id]
    SESSION_LOST = "session_lost"  # [session_id]
    SESSION_GIVEN_UP = "session_given_up"  # [session_id, operation] it failed again and again
    REQUEST_REFUSED = "request_refused"  # [request, error, ...]
    BAD_INPUT_MET = "bad_input_met"  # [where, what]: a peer's or a file's, repaired or refused
    FAIL_POINT_HIT = "fail_point_hit"  # [name, action]

    # Controller
    CONTROLLER_ELECTED = "controller_elected"
    CONTROLLER_RESIGNED = "controller_resigned"  # [reason]
    FAILOVER_COMPLETED = "failover_completed"  # [brokers, partitions]
    BROKERS_CHANGED = "brokers_changed"  # [new, dead, bounced]
    BROKER_SUSPECTED = "broker_suspected"  # [broker, broker_epoch, why] it seems dead, and is live
    SHUTDOWN_BEGUN = "shutdown_begun"  # [broker, broker_epoch] a ControlledShutdown is obeyed
    TOPICS_CHANGED = "topics_changed"  # [created, deleted]
    PARTITION_STATE_CHANGED = "partition_state_changed"  # [from_state, to_state, trigger]
    REPLICA_STATE_CHANGED = "replica_state_changed"  # [replica, from_state, to_state, trigger]
    # The next two: left as it was [replica: none where it is a partition, as above, reason]
    TRANSITION_REFUSED = "transition_refused"  # no table has it: a bug
    STATE_CHANGE_FAILED = "state_change_failed"  # it cannot be made as things are
    LEADERSHIP_DECIDED = "leadership_decided"  # a new epoch, to be written [leader, isr, unclean]
    LEADER_ELECTED = "leader_elected"  # [leader, isr, unclean, selector, trigger]
    ISR_WRITTEN = "isr_written"  # [leader, isr, partition_epoch, trigger] by the controller
    REPLICAS_RENOUNCED = "replicas_renounced"  # out of ISR, ELR, lead [lost, leader, isr, elr]
    LOG_FOLDERS_CHANGED = "log_folders_changed"  # [brokers] they announced it: commanded anew
    REPLICAS_FAILED = "replicas_failed"  # [broker, partitions] its disk refuses them
    WRITE_CONFLICTED = "write_conflicted"  # [path] a conditional write met another version
    REASSIGNMENT_BEGUN = "reassignment_begun"  # [replicas, adding, removing] written, nobody told
    REASSIGNMENT_COMPLETED = "reassignment_completed"  # [replicas, removed] written
    COMMAND_SENT = "command_sent"  # [broker, request, correlation_id, is_init, partitions]
    COMMAND_ANSWERED = "command_answered"  # [broker, request, error]
    COMMAND_TIMED_OUT = "command_timed_out"  # the alert of V3's discussion [broker, request]
    TOPIC_CREATED = "topic_created"  # [assignment]
    PARTITIONS_CREATED = "partitions_created"  # [first_partition, assignment] of a topic there was
    TOPIC_DELETED = "topic_deleted"
    DELETION_FAILED = "deletion_failed"  # [reason] put aside until it is asked for again
    CONFIG_ALTERED = "config_altered"  # [where, names, config] written and announced
    COMMAND_DROPPED = "command_dropped"  # [broker, request, reason] the broker cannot take it

    # Broker
    BROKER_REGISTERED = "broker_registered"  # [broker_epoch]
    LEADERSHIPS_HANDED_OVER = "leaderships_handed_over"  # [attempts, error, remaining] seen last
    REQUEST_HANDLED = "request_handled"  # [request, controller_id, correlation_id, ...]
    # offset: log end [isr, high_watermark, (is_open: false until its next isr_changed)]
    BECAME_LEADER = "became_leader"
    BECAME_FOLLOWER = "became_follower"  # offset: log end [leader, high_watermark]
    REPLICA_STARTED = "replica_started"  # offset: log end [high_watermark]
    REPLICA_STOPPED = "replica_stopped"  # [deleted]
    LOG_RECOVERED = "log_recovered"  # offset: log end [truncated_bytes, clean]
    LOG_APPENDED = "log_appended"  # offset: base [end_offset] leaders only
    PRODUCE_REPEATED = "produce_repeated"  # offset: base [end_offset] it was there already
    LOG_TRUNCATED = "log_truncated"  # offset: new log end [from_offset, high_watermark, reason]
    LOG_START_MOVED = "log_start_moved"  # offset: new log start [reason]
    # offset: where its newest segment now ends [base_offset, dirty_end, high_watermark,
    # removed_records, size_bytes_before, size_bytes]
    LOG_COMPACTED = "log_compacted"
    # offset; [isr, log_end_offset, (is_taken: at a take-over; isr: itself, whoever else has it)]
    HIGH_WATERMARK_ADVANCED = "high_watermark_advanced"
    ISR_CHANGE_PROPOSED = "isr_change_proposed"  # [isr, reason]
    ISR_CHANGED = "isr_changed"  # [isr, partition_epoch] as the leader adopted it
    FETCHER_STARTED = "fetcher_started"  # offset: where it fetches from [leader]
    FETCHER_STOPPED = "fetcher_stopped"
    LOG_FOLDER_FAILED = "log_folder_failed"  # [folder, what] its replicas are out of service
    CHECKPOINT_WRITTEN = "checkpoint_written"  # [file, entries, (folder)]
    # Of partitions of __consumer_offsets; since_epoch: in which epoch the term began
    GROUP_LOAD_BEGUN = "group_load_begun"  # [epoch_start_offset]
    GROUP_LOAD_WAITED = "group_load_waited"  # [high_watermark, epoch_start_offset, isr]
    GROUP_LOAD_FAILED = "group_load_failed"  # [error, what] it is tried again
    GROUP_LOAD_ENDED = "group_load_ended"  # [since_epoch, read_up_to, groups, offsets, skipped]
    GROUP_UNLOADED = "group_unloaded"  # [since_epoch, was_loaded]
    OFFSETS_EXPIRED = "offsets_expired"  # [group, partitions] their tombstones are committed

    # Group coordinator
    GROUP_STATE_CHANGED = "group_state_changed"  # [group, generation, from_state, to_state, reason]
    GROUP_GENERATION_BEGUN = "group_generation_begun"  # [group, generation, protocol, members]
    GROUP_MEMBER_EXPIRED = "group_member_expired"  # [group, generation, member]
    GROUP_NOT_STORED = "group_not_stored"  # [group, error] its log did not take it


BY_RETENTION = "retention"
"""The reason of a LOG_START_MOVED that may excuse records which are gone. Traces of earlier
versions have no reasons."""


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event of one node.

    Units: ts_ns is nanoseconds since 1970 by the machine's clock, which faults to a node's wall
    clock do not move (virtual in the simulator).
    Ordering: (node, incarnation, seq) is unique and total per node.
    topic_id: of the topic as the node knew it: epochs and offsets of another id begin anew.
    """

    ts_ns: Int64
    node: Int32
    incarnation: Int32
    seq: Int64
    kind: EventKind
    topic: str | None = None
    topic_id: TopicId = field(default=NO_TOPIC_ID, kw_only=True)
    partition: Int32 | None = None
    leader_epoch: Int32 | None = None
    controller_epoch: Int32 | None = None
    offset: Int64 | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The event's partition, None without one."""
        if self.topic is None or self.partition is None:
            return None
        return TopicPartition(self.topic, self.partition)
