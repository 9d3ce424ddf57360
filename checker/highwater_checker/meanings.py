"""What each invariant demands, in words that reports and docs/reference/invariants.md have.

The true high watermark is the highest that a leader had whose epoch is that of the state znode. A
single replica's high watermark may fall.
"""

from __future__ import annotations

from collections.abc import Mapping

SAFETY: Mapping[str, str] = {
    "I1": (
        "A record that was acknowledged with acks=all, or lies below the true high watermark, "
        "is at its offset in every later leader's log."
    ),
    "I2": (
        "Every live member of the ISR in ZooKeeper holds the records from the log start to "
        "the true high watermark."
    ),
    "I3": (
        "The same offset and epoch on two replicas is the same record, after the same "
        "records. Below both high watermarks logs are equal."
    ),
    "I4": (
        "Log start ≤ high watermark ≤ log end. A leader's high watermark is at most the log "
        "end of each member of the maximal ISR. A leader after a clean election holds all "
        "records below the true high watermark."
    ),
    "I5": "The ISR by which a leader commits contains the one in ZooKeeper.",
    "I6": (
        "The ISR is a non-empty part of the assigned replicas, and the leader is in it, or "
        "nobody leads."
    ),
    "I7": (
        "Leader epochs rise by one with each of the controller's writes. At most one broker "
        "leads a partition in one leader epoch."
    ),
    "I8": (
        "A controller epoch is one controller's, which writes nothing once the next is elected."
    ),
    "I9": (
        "A record that was read at an offset stays there unchanged. The latest offset that a "
        "client sees does not fall. A consumer's offset is called out of range only where the log "
        "of a leader begins above it or ends below it."
    ),
    "I10": (
        "The epoch cache rises in epochs and offsets and fits the batches. A leader's last "
        "entry is its epoch."
    ),
    "I11": (
        "But for unclean elections no member of the ISR truncates records below the true high "
        "watermark."
    ),
    "I12": (
        "Partitions and replicas change from state to state only as the state machines have it. "
        "An online partition has a leader. While replicas are being moved, one that the move adds "
        "is elected from outside the ISR only where none of the others is known to be live: it may "
        "be empty."
    ),
    "I13": (
        "A topic's znodes go only after every replica has confirmed its deletion. No broker "
        "keeps or serves a topic's earlier incarnation."
    ),
    "I14": (
        "A broker coordinates groups of an offsets partition exactly while it leads it, and "
        "serves them once it has read all that is committed there. An offset that it "
        "acknowledges is committed in the log under its own leadership. An offset in its "
        "answer to OffsetFetch is the last one that was acknowledged by it or before it, or a "
        "later one."
    ),
    "I15": (
        "The checkpoint lists every hosted partition. After a start the high watermark is at "
        "least the checkpointed one, or the log's end if that is less."
    ),
    "I16": (
        "No command of an older controller, broker or leader epoch is applied, and no fetch "
        "of an older epoch counted."
    ),
    "I17": (
        "A record that was acknowledged with acks=all had `min.insync.replicas` members in "
        "the ISR when it was appended and when it was acknowledged."
    ),
    "I18": (
        "Replicas leave the assignment only once the remaining ones are in sync; where a "
        "reassignment is cancelled, once `min.insync.replicas` of them are."
    ),
    "I19": (
        "Compaction removes a record only where a newer one of its key is committed in the "
        "log, and changes no remaining record."
    ),
    "I20": (
        "A record of an idempotent producer is in the log once, however often it was sent, "
        "and such a producer's acknowledged records are in the order of their sends (KIP-98). "
        "A broker that has no record of a producer takes any first sequence (KIP-360). So our "
        "producer has one batch in flight in a partition until one is acknowledged. A "
        "producer that does not wait may break the order, if its first batch is refused while "
        "a younger one is taken."
    ),
    "I21": (
        "A group's generations only rise, until it is deleted. In one generation of a group a "
        "partition is assigned to one member; a static member that was started again has the "
        "place of its former process (KIP-345). Once a later generation was assigned, no "
        "member of an earlier one, and no static member's former process, has a commit "
        "acknowledged or a heartbeat answered without an error."
    ),
    "I22": (
        "Every record below an offset that a group's member commits was delivered to a member "
        "of the group before. A member gets records from the offset that its coordinator "
        "answered, each once; only records above the committed offset are delivered again."
    ),
}
"""Invariants of replication, at every moment."""

LIVENESS: Mapping[str, str] = {
    "L1": "One controller is active.",
    "L2": "A partition with a live member of its ISR has a leader.",
    "L3": (
        "The leader's epoch, ISR and partition epoch are those in ZooKeeper, and so is every "
        "broker's metadata."
    ),
    "L4": "A replica that lags leaves the ISR, one that has caught up joins it.",
    "L5": "Produces end in time, and the high watermark reaches the log's end.",
    "L6": "Deletions and reassignments end, and the znodes that requested them are removed.",
    "L7": "A broker that was asked to stop stops.",
    "L8": "Each follower has one fetcher, of the current leader.",
    "L9": "The leader of an offsets partition has loaded its groups.",
    "L10": "Queues of events and commands drain.",
    "L11": (
        "A replica whose log folder has failed neither leads nor is in an ISR that has "
        "another member. Its broker goes on to serve the replicas of its other log folders, "
        "as long as one of them is sound."
    ),
}
"""Once everything is healed, and within a bound."""

HISTORIES: Mapping[str, str] = {
    "inconsistent-offsets": "Two values were seen at one offset.",
    "duplicate": (
        "A value that was sent once is there twice; allowed where its client sends again."
    ),
    "aborted-read": "The record of a failed send is in a log, or was read.",
    "unseen": "A consumer that read to the end never read a record that is in the logs.",
    "nonmonotonic-poll": (
        "A consumer got a record below one that it had read before, without a cause that I9 has."
    ),
    "nonmonotonic-send": "One client with one request at a time got a lower offset later.",
    "realtime-send": (
        "A record that was sent after another's acknowledgement has the lower offset."
    ),
}
"""Anomalies of clients' histories, after Jepsen's Kafka workload."""


def meaning_of(invariant: str) -> str:
    """Return what the invariant demands, or what the anomaly is; "" of an unknown one."""
    for meanings in (SAFETY, LIVENESS, HISTORIES):
        if invariant in meanings:
            return meanings[invariant]
    return ""
