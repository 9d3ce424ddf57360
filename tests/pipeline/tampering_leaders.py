"""Ways to tamper with leaders in looks and traces, and with who has acknowledged records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from highwater_checker.looks import Look, encode_look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import TOPOLOGY, RunTopology
from highwater_core.events import EventKind
from highwater_core.ids import NodeId
from tests.pipeline.tampering import BROKERS, looked, no_logs
from tests.support.made_again import (
    BOTH,
    FIRST,
    FOLLOWED,
    LED,
    SECOND,
    deletion,
    traced,
    write_made_again,
)
from tests.support.run_on_disk import segment, write


def led_by_both(folder: Path) -> None:
    """In a look broker 1 leads in the epoch of broker 0, and its trace does not say so."""
    leads = replace(BROKERS[1].replicas[0], role="leader", leader=NodeId(1))
    both = Look(50, {0: BROKERS[0], 1: replace(BROKERS[1], replicas=(leads,))})
    write(folder / names.LOOKS, encode_look(both) + b"\n")


def led_by_both_in_a_second_life(folder: Path) -> None:
    """Broker 1 led the first life; a look saw it lead the second in the epoch of broker 0."""
    first = (
        traced(100, LED, FIRST, 0, node=1, **BOTH),
        traced(200, EventKind.LOG_APPENDED, FIRST, 0, node=1, end_offset=1),
        traced(300, EventKind.LOG_APPENDED, FIRST, 1, node=1, end_offset=2),
    )
    second = (
        traced(600, LED, SECOND, 0, **BOTH),
        traced(610, FOLLOWED, SECOND, 0, node=1, leader=0, high_watermark=0),
        traced(700, EventKind.LOG_APPENDED, SECOND, 0, end_offset=1),
    )
    write_made_again(folder, events=[*first, deletion(FIRST), *second])
    brokers = {
        node: replace(each, replicas=(replace(each.replicas[0], topic_id=SECOND),))
        for node, each in BROKERS.items()
    }
    leads = replace(brokers[1].replicas[0], role="leader", leader=NodeId(1))
    both = Look(50, {0: brokers[0], 1: replace(brokers[1], replicas=(leads,))})
    looked(folder, both, Look(99, brokers))


def hosted_by_nobody(folder: Path) -> None:
    """At the end no broker has a replica of the partition, and so there is no log."""
    no_logs(folder)
    looked(folder, Look(99, {node: replace(each, replicas=()) for node, each in BROKERS.items()}))


def hosted_by_none_of_those_asked(folder: Path) -> None:
    """The final look lacks one of the run's two brokers."""
    no_logs(folder)
    looked(folder, Look(99, {0: replace(BROKERS[0], replicas=())}))
    write(folder / TOPOLOGY.name, TOPOLOGY.encode(RunTopology(brokers=2, controllers=0)))


def hosted_by_the_silent(folder: Path) -> None:
    hosted_by_nobody(folder)
    looked(folder, Look(99, {0: replace(BROKERS[0], replicas=()), 1: None}))


def named_beyond_all_offsets(folder: Path) -> None:
    """The first segment is damaged, and named by an offset that no log has."""
    path = segment(folder, 0)
    path.unlink()
    write(path.with_name("99999999999999999999.log"), b"no whole batch")


def acknowledged_too_early(folder: Path) -> None:
    path = folder / "history" / "p0.jsonl"
    begun, ended = path.read_bytes().splitlines(keepends=True)
    write(path, begun + ended.replace(b'"time_ns":10', b'"time_ns":9'))


def asked_of_no_node(folder: Path) -> None:
    looked(folder, Look(99, {}))
