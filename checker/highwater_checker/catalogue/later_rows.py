"""The rows from 25 on, and bugs that are no rows: what Kafka's tracker has besides the first 24.

Those with a trigger show with planted mistakes only: no preset has them. Versions are those of
the tags that contain the fix in Kafka's repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from highwater_checker.catalogue import later_triggers
from highwater_checker.catalogue.row import Row, make_row

LATER_ROWS: tuple[Row, ...] = (
    make_row(
        25,
        ("KAFKA-18723",),
        "A deposed leader's answer has the records that took the place of those it was to have",
        versions=("up to 3.9.0", "after 3.9.0 (pull request 18852)"),
        breaks={"I3": "the follower's log has epochs that it was never told of, behind a gap"},
        in_a_trace="log_truncated of a leader, then log_appended in that epoch at the cut or "
        "behind it, while the last role of a follower of the leader is of an epoch before",
        trigger=later_triggers.took_what_replaced_its_leaders_records,
        planted=("newer_epoch_appended",),
    ),
    make_row(
        26,
        ("KAFKA-10778",),
        "A log goes on behind what a failed write has left of its batch",
        versions=("before 2.8.0", "2.8.0"),
        breaks={
            "I3": "a start that trusts what was flushed keeps the torn batch: nobody can decode it",
            "I4": "for whoever reads the log it ends at the torn batch",
            "I1": "the next start cuts the torn batch, and all that is acknowledged behind it",
        },
        in_a_trace="request_refused (append, produce) with KAFKA_STORAGE_ERROR, then log_appended "
        "of the same process at or below the offset",
        trigger=later_triggers.went_on_after_a_refused_write,
        planted=("append_after_failed_write",),
    ),
    make_row(
        27,
        ("KAFKA-10432",),
        "Recovery leaves epoch 0 out of the epoch cache, and KIP-101 is undone for it",
        versions=("2.2.0-2.6.0", "2.6.1, 2.7.0"),
        breaks={
            "I11": "without an epoch to ask for, a member cuts at its high watermark, which lags",
            "I1": "it leads before it has fetched back",
        },
        in_a_trace="log_recovered before any log_appended of an epoch above 0, then log_truncated "
        "to the high watermark, below where the log had ended",
        trigger=later_triggers.cut_what_it_had_recovered,
        planted=("epoch_0_not_recovered",),
    ),
    make_row(
        28,
        ("KAFKA-13407", "KAFKA-13461"),
        "A controller that is elected does not begin its term",
        versions=("up to 3.0.0", "3.0.1, 3.1.0 (KAFKA-13461)"),
        breaks={"L1": "/controller names a controller, and no controller acts"},
        in_a_trace="controller_resigned, or a new node_started, of the last controller_elected",
        trigger=later_triggers.nobody_followed_a_controller,
        planted=("elected_and_idle",),
    ),
    make_row(
        29,
        ("KAFKA-13773", "KAFKA-15375"),
        "A stop leaves the marker of a clean one, though a log was not recovered",
        versions=("up to 3.2.0; KAFKA-15375: up to 3.5.1", "3.2.1, 3.3.0; 3.5.2, 3.6.0"),
        breaks={
            "I4": "the next start looks for no loss, and the broker leads without its log's end",
            "I1": "the others cut to its log",
            "I2": "an ISR member lacks a committed record",
        },
        in_a_trace="bad_input_met (where: the partition) at a start, then log_recovered with "
        "clean=true of a later incarnation, its end at or below the offset",
        trigger=later_triggers.clean_stop_with_an_unopened_log,
        planted=("clean_stop_with_unopened_log",),
    ),
    make_row(
        30,
        ("KAFKA-5634",),
        "Retention removes segments that are not committed yet",
        versions=("up to 0.11.0.0", "0.11.0.1, 1.0.0"),
        breaks={"I4": "the log starts above its high watermark, and followers start over there"},
        in_a_trace="log_start_moved (retention) of a leader beyond its last "
        "high_watermark_advanced, or that of its became_leader",
        trigger=later_triggers.removed_what_is_not_committed,
        planted=("retention_beyond_high_watermark",),
    ),
    make_row(
        31,
        ("KAFKA-14190",),
        "A tool that knows no topic ids leaves a topic's id out of its znode",
        versions=("2.8 and later, with ZooKeeper", "none (pull request 13111 was closed)"),
        breaks={
            "I1": "a controller that takes it for another topic has its replicas deleted",
            "L4": "under another id or none, no replica comes back into the ISR",
        },
        in_a_trace="none: no fault of a plan writes a topic's znode; in every preset with topic "
        "ids the controller writes the id back, and a new one learns it from a leader",
    ),
    make_row(
        32,
        ("KAFKA-9672",),
        "A broker in the ISR that is not assigned keeps the ISR from shrinking",
        versions=("2.4.0-2.8", "3.0.0"),
        breaks={"L4": "the check for members that lag ends with an error, for all members"},
        in_a_trace="none: a member of which a leader knows nothing lags, in every preset; and one "
        "write takes leaving replicas out of the ISR as it moves the lead",
    ),
    make_row(
        33,
        ("KAFKA-3978",),
        "A high watermark becomes -1",
        versions=("up to 1.0.1", "1.0.2, 1.1.0"),
        breaks={"I4": "the high watermark is below the log's start"},
        in_a_trace="none: every preset keeps a replica's high watermark between its log's start "
        "and end, and a leader's only rises",
    ),
    make_row(
        34,
        ("KAFKA-10101",),
        "A recovery point is beyond its log's end",
        versions=("before 2.8.0", "2.8.0"),
        breaks={"I15": "what is appended below it is not checked after an unclean stop"},
        in_a_trace="none: in every preset a log takes no record before the lower recovery point "
        "is on the disk",
    ),
    make_row(
        35,
        ("KAFKA-1387",),
        "A broker takes its own registration, whose reply it lost, for another's",
        versions=("before 0.9.0.0", "0.9.0.0"),
        breaks={"L2": "it waits for itself, and leads nothing"},
        in_a_trace="none: in every preset a broker knows its own ephemeral znode by its session, "
        "and removes those of its earlier sessions",
    ),
    make_row(
        36,
        ("KAFKA-5758",),
        "One partition of which a broker is no follower fails its whole fetch",
        versions=("before 1.0.0", "1.0.0"),
        breaks={"L4": "after a reassignment the follower falls behind in all other partitions"},
        in_a_trace="none: every preset answers a fetch partition by partition",
    ),
    make_row(
        37,
        ("KAFKA-8722",),
        "A produced batch with an unexpected offset is appended with its CRC unchecked",
        versions=("0.10.2.0-0.10.2.2", "the branch 0.10.2, after 0.10.2.2"),
        breaks={"L4": "followers refuse the corrupt batch, and leave the ISR"},
        in_a_trace="none: every preset checks each produced batch, and takes base offset 0 only",
    ),
)
"""In the order of their numbers."""

NO_ROWS: Mapping[str, str] = MappingProxyType(
    {
        "KAFKA-1120": "is row 15",
        "KAFKA-15583": "is the first half of row 9's fix (3.7.0), and the toggle "
        "`high_watermark_waits_for_min_isr`",
        "KAFKA-3919": "is row 2: two logs of the same offsets after a power loss, whose batches "
        "then overlap",
        "KAFKA-13572": "is a metric that went below 0 (3.2.1, 3.3.0); here it is counted anew for "
        "each snapshot",
        "KAFKA-2477, KAFKA-9838": "has readers that race an append or a truncation (0.9.0.0; "
        "2.5.1, 2.6.0); a broker here has one event loop, and reads what it has noted",
        "KAFKA-9835": "is such a race too, by which a consumer reads above the high watermark "
        "(2.5.1, 2.6.0); the planted mistake `uncommitted_served_to_consumers` has the effect",
        "KAFKA-9543, KAFKA-9824": "is a consumer's report of offsets reset in 2.4; no fix "
        "of its own was found",
        "KAFKA-6042, KAFKA-7697": "is a deadlock of two locks (0.11.0.2, 1.0.0; 2.1.1, "
        "2.2.0); there are none here",
        "KAFKA-8733, KIP-501": "was never changed: followers leave the ISR when their leader is "
        "slow to answer. It is so here, and costs availability alone; under `fenced` those that "
        "left may be eligible (KIP-966)",
        "KAFKA-9144, KAFKA-14497": "is about transactions, which are not modelled",
        "KAFKA-12257, KAFKA-13310": "is a mistake of the Java consumer (2.8.2, 3.0.0; 3.2.0)",
        "KAFKA-4381": "is a consumer's metric",
        "KAFKA-12158": "is a return type of the Raft client",
        "KAFKA-7447": "has no public text of its cause that was found; row 22 has the kind "
        "(KAFKA-8069)",
    }
)
"""Bugs that were looked at and are no rows, by ids, and why."""
