"""The rows: each bug's name, the invariants that it breaks, and its trigger in a trace.

A row without a trigger cannot show here. One whose fix is part of every preset shows with the
toggles that its in_a_trace names, one with planted mistakes with these only. None of them excuses a
violation of a preset.
Source: docs/reference/catalogue.md; the reasons quote its Symptom column.
"""

from __future__ import annotations

from highwater_checker.catalogue import (
    commands,
    coordinators,
    elections,
    first_design,
    followers,
    in_sync,
    leaders,
    truncation,
)
from highwater_checker.catalogue.later_rows import LATER_ROWS
from highwater_checker.catalogue.row import Row as Row
from highwater_checker.catalogue.row import make_row as _row

_LOST = "a committed record is lost"
_ELECTED = "its new leader lacks a committed record"
_READ = "a consumer read what is lost"
_UNDELIVERED = "records take the places of lost ones, which a group has read"
_MEMBER = "an ISR member lacks a committed record"
_DIFFER = "who kept the records and who wrote others in their place differ"

CATALOGUE: tuple[Row, ...] = (
    _row(
        1,
        ("KAFKA-1211", "KIP-101"),
        "A new follower truncates to its own high watermark, and leads before it has fetched back",
        versions=("0.8-0.10.2", "0.11.0"),
        breaks={
            "I1": _LOST,
            "I2": _MEMBER,
            "I3": "the old leader, whose high watermark is beyond the loss, keeps its records",
            "I4": _ELECTED,
            "I9": _READ,
            "I22": _UNDELIVERED,
            "I11": "the truncation itself removes it from an ISR member",
        },
        in_a_trace="log_truncated to the high watermark, its offset below a "
        "high_watermark_advanced of an earlier leader, or of one that it fetched from before "
        "(fetcher_started) and that has led since; and the replica leads (or may be elected) "
        "before its log is seen back",
        trigger=truncation.truncated_below_committed_records,
    ),
    _row(
        2,
        ("KIP-101",),
        "A replica that lost its unflushed end leads and writes the same offsets anew",
        versions=("0.8-0.10.2", "0.11.0"),
        breaks={
            "I1": _LOST,
            "I2": "an ISR member that followed the same leader before keeps its own records",
            "I3": "the same offsets hold different records",
            "I4": _ELECTED,
            "I9": _READ,
            "I22": _UNDELIVERED,
            "I11": "an ISR member whose log goes beyond the leader's cuts what that has lost",
        },
        in_a_trace="log_recovered below where the replica's log had ended, and the replica leads "
        "from there, or nobody is elected and it alone is in sync",
        trigger=truncation.led_after_losing_its_end,
    ),
    _row(
        3,
        ("KAFKA-6361", "KIP-279"),
        "Fast leader changes leave epochs that only one of two logs has",
        versions=("0.11-1.1", "2.0.0"),
        breaks={"I3": "the offsets of those epochs differ"},
        in_a_trace="became_follower; the last epoch in which the follower has records "
        "(log_appended, its own or of a leader that it followed) is none of the leader's; no "
        "log_truncated since down to an offset at which the two have records of different epochs",
        trigger=truncation.kept_an_epoch_that_its_leader_lacks,
    ),
    _row(
        4,
        ("KAFKA-7415",),
        "A leader that wrote nothing in its epoch does not have the epoch in its cache",
        versions=("0.11-2.0.0", "2.0.1, 2.1.0"),
        breaks={
            "I1": _LOST,
            "I2": _MEMBER,
            "I3": _DIFFER,
            "I4": _ELECTED,
            "I9": _READ,
            "I22": _UNDELIVERED,
            "I10": "the leader's last cached epoch is not its current one",
            "I11": "a follower of the ISR whose last epoch the leader cannot place cuts its log to "
            "a high watermark below what is committed",
        },
        in_a_trace="became_leader with no log_appended in that epoch, or none that a log_recovered "
        "has left; it excuses a place in a log if a follower with records of a later epoch than "
        "all that the leader had cut its log, as in row 1, since its leader knew no such epoch",
        trigger=truncation.leads_without_having_written,
    ),
    _row(
        5,
        ("KAFKA-7164",),
        "A follower that missed an epoch keeps its log, since its leader is the same",
        versions=("up to 2.0.0", "2.0.1, 2.1.0"),
        breaks={
            "I2": "the kept log lacks what the leader committed in its place",
            "I3": "the kept records differ from the leader's",
            "I4": "such a follower is elected",
            "L4": "the kept log ends within a batch of the leader's, and never takes that batch",
            "I16": "the leader counts the kept records as copies of its own",
        },
        in_a_trace="became_follower of the leader that it followed in an epoch before that leader "
        "cut its log (log_truncated), with a log end beyond the cut and no log_truncated of its "
        "own",
        trigger=truncation.kept_its_log_for_a_leader_that_had_cut_its_own,
    ),
    _row(
        6,
        ("KAFKA-6880", "KIP-320", "KAFKA-7395"),
        "A follower of an older epoch goes on fetching, under a tail that fits",
        versions=("up to 2.0", "2.1.0"),
        breaks={
            "I2": "its fetches count for the ISR, though its log differs",
            "I3": "its records differ under a correct tail",
            "I4": "such a follower is elected",
            "L4": "its log ends within a batch of the leader's, and never takes that batch",
            "I10": "it is told late to lead an epoch below those of the records that it fetched",
            "I11": "a late StopReplica of an epoch before deletes it once it is in the ISR",
            "I16": "a stale-epoch follower's fetch is counted",
        },
        in_a_trace="became_follower, then nothing more to that broker until its leader has cut "
        "its log (log_truncated) in a later epoch, or lost its end (log_recovered), and leads "
        "again in a later epoch (became_leader); or nothing "
        "more until its own became_leader of an epoch below one in which its leader has written "
        "(log_appended) what its log now reaches beyond; or isr_changed with the broker, and then "
        "its replica_stopped (deleted) in an epoch below",
        trigger=truncation.fetched_in_an_older_epoch,
    ),
    _row(
        7,
        ("KAFKA-7128",),
        "A follower joins the ISR at a high watermark that lags the committed records",
        versions=("up to 2.0.0", "2.0.1, 2.1.0"),
        breaks={"I1": _LOST, "I2": _MEMBER, "I4": _ELECTED, "I9": _READ, "I22": _UNDELIVERED},
        in_a_trace="isr_change_proposed adds a broker while the leader's high watermark is below "
        "its log end at became_leader and below an earlier leader's high_watermark_advanced",
        trigger=in_sync.joined_below_the_start_of_the_epoch,
    ),
    _row(
        8,
        ("KIP-903", "KAFKA-14139", "KIP-841", "KAFKA-14140"),
        "An ISR write lands after its new member has restarted",
        versions=("all with ZooKeeper", "3.5 (KRaft only); KAFKA-14140: 3.3.0"),
        breaks={
            "I1": "the member comes back with less, is elected, and all that is lost",
            "I2": _MEMBER,
            "I4": _ELECTED,
            "I9": _READ,
            "I22": _UNDELIVERED,
            "L4": "a broker that is gone was added, and an idle partition shrinks for nobody",
        },
        in_a_trace="isr_change_proposed adds a broker whose node_started comes before the "
        "leader's isr_changed, or whose next incarnation has not begun to fetch; for L4, one that "
        "brokers_changed has as dead, failover_completed does not have, or shutdown_begun names",
        trigger=in_sync.member_restarted_before_its_isr_was_written,
    ),
    _row(
        9,
        ("KIP-966",),
        "The last replica in sync commits alone, loses its log's end, and leads again",
        versions=("all with ZooKeeper", "KRaft's ELR; KAFKA-15583: 3.7"),
        breaks={
            "I1": "good copies are truncated after one lossy crash",
            "I4": _ELECTED,
            "I9": _READ,
            "I22": _UNDELIVERED,
        },
        in_a_trace="high_watermark_advanced with the leader alone in the ISR, then its "
        "log_recovered below that, then it leads; or the last leadership_decided elects nobody, "
        "its ISR is one broker, of which nothing is seen since, and another still has what was "
        "committed",
        trigger=elections.last_in_sync_lost_what_it_committed_alone,
    ),
    _row(
        10,
        ("KIP-106", "KAFKA-4623", "KAFKA-3410", "KAFKA-3861", "KAFKA-3924", "KAFKA-7414"),
        "A leader is elected from outside the ISR",
        versions=("before 0.11.0, by default", "0.11.0"),
        breaks={
            "I1": _LOST,
            "I2": "the old leader, alive and deposed, goes on committing without the new ISR",
            "I3": _DIFFER,
            "I4": _ELECTED,
            "I9": _READ,
            "I22": _UNDELIVERED,
            "I11": "followers cut what the elected leader lacks",
            "I12": "the election itself is of a replica outside the ISR",
        },
        in_a_trace="leadership_decided or leader_elected with unclean=true; the place asked about "
        "lies beyond each high_watermark_advanced with that replica in the ISR, or its log was cut",
        trigger=elections.elected_from_outside_the_isr,
    ),
    _row(
        11,
        ("KAFKA-1647", "KAFKA-769", "KAFKA-851", "KAFKA-858"),
        "A replica that was never created loses its checkpointed high watermark",
        versions=("before 0.8.2", "0.8.2"),
        breaks={"I15": "the checkpoint is rewritten without the partition"},
        in_a_trace="request_refused of a LeaderAndIsr whose leader is not known to live, no role "
        "since, then checkpoint_written of high watermarks. No preset: "
        "`checkpoint_every_hosted_partition` and `follow_unknown_leader`",
        trigger=followers.checkpoint_lacks_a_replica_without_role,
    ),
    _row(
        12,
        ("KAFKA-2143",),
        "A follower out of range wipes its log, since the leader grew before it asked",
        versions=("up to 0.9.0.0", "0.9.0.1"),
        breaks={"I11": "the follower wipes a good log"},
        in_a_trace="log_truncated for being out of the leader's range. No preset: "
        "`wipe_only_below_leader_start`; a member of the ISR comes to be out of range where "
        "`fence_fetch_by_leader_epoch` is missing too",
        trigger=followers.dropped_a_log_that_was_in_range,
    ),
    _row(
        13,
        ("KAFKA-3083", "KAFKA-2729", "KAFKA-6082"),
        "A deposed controller's write succeeds, and its command is refused",
        versions=("up to 1.0; KAFKA-6082: up to 2.0", "1.1.0; 2.1.0"),
        breaks={
            "I7": "the state's controller epoch falls",
            "I8": "a controller writes after the next one is elected",
            "L2": "the write moved the leader, who is never told",
            "L3": "the leader's partition epoch lags the state",
            "L4": "the leader's ISR writes all meet another version",
        },
        in_a_trace="leadership_decided of a controller epoch below one that controller_elected "
        "has already named. Here nothing is written in a session that ZooKeeper has ended; in its "
        "plan the planted mistake `controller_acts_after_expiry` goes on in the next session",
        trigger=elections.deposed_controller_wrote,
    ),
    _row(
        14,
        ("KAFKA-1382",),
        "An ISR write whose reply was lost is taken for another's",
        versions=("up to 0.8.1", "0.8.2"),
        breaks={
            "L3": "the leader never learns the version of its own write",
            "L4": "its later ISR writes all meet another version",
        },
        in_a_trace="write_conflicted of a leader, nothing that a controller has written "
        "(isr_written, leader_elected) since its became_leader, and no isr_changed after. No "
        "preset: `adopt_own_isr_write`",
        trigger=leaders.own_isr_write_taken_for_anothers,
    ),
    _row(
        15,
        ("KAFKA-7235", "KIP-380", "KAFKA-1120"),
        "A broker's restart goes unnoticed, or commands to its earlier incarnation reach it",
        versions=("up to 2.1", "2.2.0"),
        breaks={
            "L3": "the restarted leader does not know that it leads",
            "L4": "the restarted replica is never in sync again",
            "L5": "nobody takes records where the restarted broker should lead",
            "L6": "a reassignment waits for the restarted replica, which is told of nothing",
            "L8": "the restarted broker gets no LeaderAndIsr and starts no fetcher",
            "L2": "a broker that is taken for one that shuts down is not elected",
            "I5": "the restarted leader commits by an ISR that its earlier incarnation has changed",
        },
        in_a_trace="broker_registered by a later incarnation, no brokers_changed that names it "
        "and no controller_elected since; or replica_stopped by a StopReplica, or became_leader "
        "with another ISR than the last written one by a LeaderAndIsr (request_handled), whose "
        "command_sent is before the broker's node_started, and no role since; or "
        "shutdown_begun with a broker_epoch before the broker's last broker_registered, no "
        "brokers_changed that names it and no controller_elected since",
        trigger=commands.restart_went_unnoticed,
    ),
    _row(
        16,
        ("KAFKA-9539", "KIP-570"),
        "A late copy of a StopReplica stops what a later LeaderAndIsr has started",
        versions=("up to 2.5", "2.6.0"),
        breaks={
            "L8": "its fetcher is removed",
            "L4": "it is never in sync again",
            "I2": "with delete=true its data is gone, while it is in the ISR",
            "I16": "a command is applied after what came later",
        },
        in_a_trace="request_handled of one StopReplica (correlation_id) twice by one incarnation, "
        "a LeaderAndIsr between, replica_stopped with the second",
        trigger=commands.late_copy_stopped_a_replica,
    ),
    _row(
        17,
        ("KAFKA-13972",),
        "A cancelled reassignment leaves a stray replica",
        versions=("2.6-3.4.0 with ZooKeeper", "3.4.1, 3.5.0"),
        breaks={"I13": "the stray outlives its assignment"},
        in_a_trace="reassignment_begun that adds the broker, then request_handled of a StopReplica "
        "for it that is refused for its leader epoch, and no role since. No preset: "
        "`stop_at_equal_leader_epoch`. Here the stop before a deletion has taken its epoch",
        trigger=followers.outlived_a_reassignment,
    ),
    _row(
        18,
        ("KAFKA-4443",),
        "A new controller's LeaderAndIsr comes before the brokers know who lives",
        versions=("up to 0.10.1", "0.10.2"),
        breaks={"L8": "the follower never fetches", "L4": "it is never in sync again"},
        in_a_trace="request_refused of a LeaderAndIsr whose leader is not known to live, and no "
        "role since. No preset: `update_metadata_first` and `follow_unknown_leader`",
        trigger=followers.gave_up_on_an_unknown_leader,
    ),
    _row(
        19,
        ("KAFKA-1097", "KAFKA-1170"),
        "A replica that is no longer assigned is taken back into the ISR",
        versions=("before 0.8.1", "0.8.1"),
        breaks={
            "I6": "the ISR is not within the assignment",
            "I11": "it is deleted while it is in the ISR",
        },
        in_a_trace="reassignment_begun that removes a broker, isr_written or leader_elected "
        "without it, then isr_change_proposed with it. No preset: `refuse_unassigned_followers`",
        trigger=leaders.took_back_who_was_moved_away,
    ),
    _row(
        20,
        ("KAFKA-1451", "KAFKA-1305", "KAFKA-2300"),
        "A controller waits for itself",
        versions=("before 0.8.2; KAFKA-2300: before 0.9", "0.8.2; 0.9"),
        breaks={"L1": "no controller acts", "L10": "its queues do not drain"},
        in_a_trace="controller_resigned and then session_opened of the process of the last "
        "controller_elected. No preset has it, nor the bounded queue (KAFKA-1305) and the batch "
        "that stays (KAFKA-2300): a controller here has one loop, an unbounded queue, and no batch "
        "beyond an event",
        trigger=elections.waited_for_its_own_znode,
        planted=("controller_waits_for_itself",),
    ),
    _row(
        21,
        ("KAFKA-13091", "KIP-497"),
        "A high watermark that a smaller ISR allows does not rise",
        versions=("2.7-3.0", "3.1.0"),
        breaks={"L5": "acks=all times out without traffic"},
        in_a_trace="isr_changed with fewer members while the leader's last high_watermark_advanced "
        "is below its log_appended, and no high_watermark_advanced since. No preset: "
        "`raise_high_watermark_on_isr_answer`. The next record lets it rise: it stays where none "
        "comes",
        trigger=leaders.stayed_at_a_high_watermark_that_its_isr_lets_rise,
    ),
    _row(
        22,
        ("KAFKA-2841", "KAFKA-10614", "KAFKA-8069"),
        "A coordinator loads and unloads out of order",
        versions=("before the fixes; KAFKA-8069: 2.1.0-2.1.1", "0.9.0.0; 2.8.1, 3.0.0; 2.2.0"),
        breaks={"I14": "two coordinators, or a stale one"},
        in_a_trace="group_load_ended in another term of the leader than it was begun in, or in "
        "none; or group_unloaded of a leader that goes on leading. In every preset a term begins "
        "and ends with the role, and a load counts in its own term only",
        trigger=coordinators.coordinator_out_of_order,
        planted=("group_load_after_unload", "late_stop_unloads_groups"),
    ),
    _row(
        23,
        ("KAFKA-725", "KAFKA-2334", "KIP-207"),
        "A new leader's latest offset is below the old one's",
        versions=("before 0.10.0; KIP-207: before 2.2.0", "0.10.0; 2.2.0"),
        breaks={"I9": "the latest offset decreases"},
        in_a_trace="became_leader with a high_watermark below an earlier high_watermark_advanced",
        trigger=leaders.led_below_what_was_committed,
    ),
    _row(
        24,
        ("KIP-516", "KAFKA-10545"),
        "An old topic's log becomes the log of a new one of its name",
        versions=("before 2.8", "2.8"),
        breaks={
            "I3": "the old topic's records and the new one's differ",
            "I13": "a broker keeps, or leads with, a deleted topic's log",
            "I16": "a leader counts the old topic's records as copies of its own",
        },
        in_a_trace="topic_created of a name that was created before, or topic_deleted, or "
        "topics_changed with the topic deleted; then a replica's first became_leader or "
        "became_follower with a log end above 0",
        trigger=commands.old_log_taken_for_a_new_topic,
    ),
    *LATER_ROWS,
    _row(
        38,
        ("V2-hw-leo",),
        "A new leader takes its whole log for committed before others have it",
        versions=("the first design (V2)", "V3: the new leader's high watermark stays"),
        breaks={
            "I1": "the next leader lacks what this one called committed",
            "I2": _MEMBER,
            "I3": "a follower keeps what the leader called committed, and the next one writes "
            "others in its place",
            "I4": _ELECTED,
            "I9": "the next leader's latest offset is below the committed end",
            "I11": "an ISR member cuts what only the new leader called committed",
        },
        in_a_trace="high_watermark_advanced with is_taken, beyond the high_watermark of that "
        "became_leader and beyond what earlier leaders have committed; no isr_changed of that "
        "leader in that epoch, nor of the next leader in its own, if its log went so far",
        trigger=first_design.took_its_log_for_committed,
        is_of_first_design=True,
    ),
    _row(
        39,
        ("V2-deletion",),
        "A deleted topic's leader leads on, beside the leader of the new topic of its name",
        versions=(
            "the first design (V2)",
            "V3: a deletion waits for every replica; KIP-516: a topic has an id",
        ),
        breaks={"I7": "both lead in the new topic's leader epoch"},
        in_a_trace="became_leader; then topic_deleted, or topics_changed with the topic deleted; "
        "then became_leader of another broker in the same leader epoch, without became_follower, "
        "replica_stopped or node_started of the first one between them",
        trigger=first_design.leads_a_deleted_topic,
        is_of_first_design=True,
    ),
)
"""In the order of their numbers, from 1."""
