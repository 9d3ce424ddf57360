"""The judge of a run's files and the pipeline's tables say the same of runs in both worlds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from highwater.project import project_root
from highwater.report.failover_phases import FailoverPhases, failover_phases
from highwater.report.faults_in_run import fault_spans
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater_chaos.plan import decode_plan
from highwater_checker.idle import LONG_NS, hidden_for_long
from highwater_checker.looks import Look
from highwater_checker.probes import NO_ANSWER, Probe, encode_probe
from highwater_checker.run_folder.evidence import read_evidence, start_of_run
from highwater_core.ids import NodeId, Offset, TopicPartition
from highwater_pipeline.analysis import Analysis, analyse
from highwater_pipeline.checks import acknowledged_records
from highwater_pipeline.checks.idle import HIDDEN_FOR_LONG
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.checks.unproven import unproven
from highwater_pipeline.ingest import documents, ingest
from highwater_pipeline.metrics.failovers import SPLITS, failovers
from highwater_pipeline.reading import read_tables
from highwater_pipeline.tables import RUNS as RUNS_TABLE
from highwater_pipeline.tables import Tables
from highwater_wire.kafka.record_batch import build_batch
from tests.pipeline.duck import query
from tests.pipeline.frames import Run, arrow_tables
from tests.pipeline.tampered import TAMPERED
from tests.pipeline.tampering import BROKERS, looked, promise, promises
from tests.support.evidence_makers import look, replica
from tests.support.made_again import write_made_again
from tests.support.run_on_disk import segment, write, write_run
from tests.support.sound_runs import COMPACTED, sound_run

PLAN = project_root() / "tests" / "scenarios" / "leader_killed.json"
SIMULATED = ("simulated", "unwatched", "large")
LOST = "lost-record"
MANY = 5
"""Checks that have nothing to examine in an empty run."""


def sound(folder: Path) -> None:
    looked(folder, Look(99, BROKERS))


def on_one_broker_of_three(folder: Path) -> None:
    """The topic's only replica is on broker 0; the others host nothing and follow nobody."""
    promise(folder, topics=(replace(promises(folder).topics[0], replication_factor=1),))
    alone = replace(BROKERS[0].replicas[0], isr=(NodeId(0),), assigned_replicas=(NodeId(0),))
    nodes = {node: replace(BROKERS[0], node_id=NodeId(node), replicas=()) for node in (1, 2)}
    looked(folder, Look(99, {0: replace(BROKERS[0], replicas=(alone,)), **nodes}))
    for node in nodes:
        event = (folder / "trace" / "broker-0-1.jsonl").read_bytes()
        started = event.replace(b'"node":0', b'"node":%d' % node).replace(
            b'"became_leader"', b'"node_started"'
        )
        write(folder / "trace" / f"broker-{node}-1.jsonl", started)


def with_a_consumer_that_read_nothing(folder: Path) -> None:
    sound(folder)
    promise(folder, to_the_end=False)
    (folder / "history" / "c0.jsonl").write_bytes(b"")


def hiding(folder: Path, for_ns: int) -> None:
    """The leader's high watermark stands below its record; no probe is answered meanwhile."""
    hidden = replace(BROKERS[0].replicas[0], high_watermark=Offset(0))
    nodes = {**BROKERS, 0: replace(BROKERS[0], replicas=(hidden,))}
    looked(
        folder, *(Look(number * for_ns // 9, nodes) for number in range(10)), Look(10**10, BROKERS)
    )
    write(folder / "probes.jsonl", encode_probe(Probe(1, 2, 0, "t", 0, 1, NO_ANSWER)) + b"\n")


def without_a_record_on_a_follower(folder: Path) -> None:
    sound(folder)
    segment(folder, 1).write_bytes(b"")


def with_a_follower_that_is_cut_off(folder: Path) -> None:
    """It holds another record than was acknowledged, read and kept by the leader."""
    leader = replace(BROKERS[0].replicas[0], isr=(NodeId(0),))
    looked(folder, Look(99, {**BROKERS, 0: replace(BROKERS[0], replicas=(leader,))}))
    promise(folder, only_in_sync=True)
    segment(folder, 1).write_bytes(build_batch([(None, b"other", 1_000)], 0, 0))


def without_a_leader(folder: Path) -> None:
    looked(folder, Look(99, {1: BROKERS[1]}))
    promise(folder, only_in_sync=True)


def with_a_reader_that_was_stopped_early(folder: Path) -> None:
    """A second record is on both replicas, and nobody was let read it."""
    held = [replace(each.replicas[0], high_watermark=Offset(2)) for each in BROKERS.values()]
    nodes = {node: replace(BROKERS[node], replicas=(held[node],)) for node in BROKERS}
    looked(folder, Look(99, nodes))
    promise(folder, to_the_end=False)
    for node in BROKERS:
        with segment(folder, node).open("ab") as log:
            log.write(build_batch([(None, b"v1", 1_000)], 1, 0))


def made_again(folder: Path) -> None:
    """The topic had a life before, in which other records were acknowledged at these offsets."""
    write_made_again(folder)
    sound(folder)


RUNS: dict[str, tuple[Callable[[Path], None], str]] = {
    "sound": (sound, "pass"),
    "one-replica": (on_one_broker_of_three, "pass"),
    "silent-consumer": (with_a_consumer_that_read_nothing, "unknown"),
    "hidden-for-long": (lambda folder: hiding(folder, LONG_NS), "unknown"),
    "hidden-for-a-moment": (lambda folder: hiding(folder, LONG_NS // 2), "pass"),
    "cut-off-follower": (with_a_follower_that_is_cut_off, "pass"),
    "no-leader": (without_a_leader, "unknown"),
    "stopped-reader": (with_a_reader_that_was_stopped_early, "pass"),
    "made-again": (made_again, "pass"),
    LOST: (without_a_record_on_a_follower, "fail"),
}


@pytest.fixture(scope="module")
def found(tables: Tables) -> Analysis:
    """Give one analysis of all runs here: to plan its queries takes longer than to run them."""
    return analyse(tables)


@pytest.fixture(scope="module")
def judged_runs(tables: Tables) -> dict[str, Row]:
    """Give what the judge says of each run; a report shows some of so many runs alone."""
    rows = tables[RUNS_TABLE].select("run_id", "judged", "reasons").collect()
    return {row["run_id"]: row for row in rows}


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession, scratch: Path | None, tmp_path_factory: pytest.TempPathFactory
) -> Tables:
    root = tmp_path_factory.mktemp("runs")
    folders = []
    for name, (change, _) in RUNS.items():
        folders.append(write_run(root / name))
        change(folders[-1])
    for name, (tamper, _) in TAMPERED.items():
        folders.append(write_run(root / name))
        sound(folders[-1])
        tamper(folders[-1])
    folders.append(root / "empty")
    write(folders[-1] / "topology.json", b"{}")
    simulated, unwatched, large = simulated_runs(root)
    for path, content in sound_run(COMPACTED).items():
        write(root / COMPACTED / path, content)
    ingest(None, [*folders, simulated, unwatched, root / COMPACTED], root / "store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "JUDGED_MAX_BYTES", 0)
        ingest(None, [large], root / "store")
    return read_tables(spark, root / "store", are_small=True, scratch=scratch)


def test_a_pages_failovers_are_those_of_the_tables(tables: Tables, tmp_path: Path) -> None:
    """The same plan gives the same run; both measure it, one from its files, one from rows."""
    folder, *_ = simulated_runs(tmp_path)
    evidence = read_evidence(folder)
    told = failover_phases(
        evidence.traces,
        evidence.sends.acknowledged,
        fault_spans(folder),
        start_of_run(folder),
        evidence.looks[-1].time_ns,
    )
    own = failovers(tables).where("run_id = 'simulated'").collect()
    assert told
    assert sorted(
        (each.at, each.leader_epoch, each.leader, *map(_rounded, phases_of(each))) for each in told
    ) == sorted(
        (
            TopicPartition(row["topic"], row["partition"]),
            row["leader_epoch"],
            row["leader"],
            *(_rounded(row[name]) for name in SPLITS[:4]),
        )
        for row in own
    )


def phases_of(each: FailoverPhases) -> tuple[float | None, ...]:
    return each.detect_ms, each.elect_ms, each.first_ack_ms, each.isr_whole_ms


def _rounded(time_ms: float | None) -> float | None:
    return None if time_ms is None else round(time_ms, 3)


def simulated_runs(root: Path) -> tuple[Path, Path, Path]:
    """Return three folders of one run in the simulator: whole, and two without watched.json."""
    folder = RunFolder(root / "simulated")
    with Screen() as screen:
        ended = run_in_simulator(decode_plan(PLAN.read_bytes()), folder, screen)
    assert ended.verdict.outcome == "pass"
    unwatched, large = (shutil.copytree(folder.path, root / name) for name in SIMULATED[1:])
    for each in (unwatched, large):
        (each / "watched.json").unlink()
    return folder.path, unwatched, large


def test_the_judge_and_the_tables_say_the_same_of_runs_with_idle_checks(
    judged_runs: Mapping[str, Row], found: Analysis
) -> None:
    judged = {name: (row["judged"], row["reasons"]) for name, row in judged_runs.items()}
    others = {*SIMULATED, *TAMPERED, COMPACTED}
    by_tables = {row["run_id"]: row for row in found.verdicts if row["run_id"] not in others}
    expected = {name: outcome for name, (_, outcome) in RUNS.items()} | {"empty": "unknown"}
    for name, outcome in expected.items():
        said = judged[name], by_tables[name]
        assert (judged[name][0], by_tables[name]["by_tables"]) == (outcome, outcome), said
    assert {name for name, row in by_tables.items() if row["vacuous_checks"]} == {
        name for name, outcome in expected.items() if outcome == "unknown"
    }
    assert by_tables["empty"]["vacuous_checks"] > MANY
    assert {row["run_id"] for row in found.findings.rows} - {*TAMPERED} == {LOST}


@pytest.mark.parametrize("name", TAMPERED)
def test_the_judge_and_the_tables_say_the_same_of_runs_that_were_tampered_with(
    name: str, judged_runs: Mapping[str, Row], found: Analysis
) -> None:
    judged = judged_runs[name]
    by_tables = next(row for row in found.verdicts if row["run_id"] == name)
    expected = TAMPERED[name][1]
    said = judged["reasons"], by_tables
    assert (judged["judged"], by_tables["by_tables"]) == (expected, expected), said


@pytest.mark.full
def test_records_that_nobody_sent_are_found_by_sums_of_ranges_too(tables: Tables) -> None:
    by_ranges, one_by_one = (unproven(replace(tables, by_ranges=each)) for each in (True, False))
    assert by_ranges == one_by_one
    told = [reason for reason in by_ranges["unsent"] if "nobody sent" in reason]
    assert told == ["t-0 of broker 0: nobody sent 1 of its records"]


def test_a_run_with_a_compacted_topic_and_commits_passes_in_both(found: Analysis) -> None:
    (row,) = (row for row in found.verdicts if row["run_id"] == COMPACTED)
    assert (row["outcome"], row["by_tables"], row["reasons"]) == ("pass", "pass", "")
    examined = {
        row["check"] for row in found.examined if row["run_id"] == COMPACTED and row["examined"]
    }
    names = ("compactions", "transitions", "coordinators", "committed_offsets")
    assert {CHECKS[name].name for name in names} <= examined


def test_a_verdict_is_the_judges_and_of_large_runs_the_tables(found: Analysis) -> None:
    told = {
        row["run_id"]: (row["outcome"], row["by_tables"], row["reasons"], row["quarantined"])
        for row in found.verdicts
        if row["run_id"] in SIMULATED
    }
    assert told == {
        "simulated": ("pass", "pass", "", 0),
        "unwatched": ("unknown", "unknown", "segments decode: watched.json is missing", 0),
        "large": ("unknown", "unknown", "watched.json is missing", 0),
    }
    acknowledged = [
        (row["examined"], row["found"])
        for row in found.examined
        if row["run_id"] in SIMULATED and row["check"] == acknowledged_records.CHECK.name
    ]
    assert len(acknowledged) == len(SIMULATED)
    assert all(examined > 0 and not wrong for examined, wrong in acknowledged)


def states() -> st.SearchStrategy[Look]:
    """A look at two brokers, either of which may lead, in one of two epochs, hiding or not."""
    held = st.one_of(
        st.none(),
        st.builds(
            lambda role, epoch, high_watermark: replica(
                role, high_watermark, 9, leader_epoch=epoch
            ),
            st.sampled_from(["leader", "leader", "follower"]),
            st.sampled_from([1, 1, 1, 2]),
            st.sampled_from([5, 5, 5, 9]),
        ),
    )
    return st.builds(lambda one, other: look(0, one, other), held, held)


def test_sql_and_the_checker_find_the_same_runs_in_which_records_were_hidden_for_long() -> None:
    runs: list[Run] = []

    @settings(max_examples=300, deadline=None, database=None)
    @given(
        st.lists(st.tuples(states(), st.integers(1, 9)), min_size=1, max_size=4),
        st.sampled_from([LONG_NS // 9, LONG_NS // 4, LONG_NS // 3]),
    )
    def draw(stretches: list[tuple[Look, int]], step_ns: int) -> None:
        looks = [each for each, count in stretches for _ in range(count)]
        timed = tuple(replace(each, time_ns=at * step_ns) for at, each in enumerate(looks))
        runs.append(Run(f"r{len(runs)}", looks=timed))

    draw()
    text = HIDDEN_FOR_LONG.format(replica_looks="replica_looks")
    (found,) = query(f"CREATE VIEW found AS {text}", arrow_tables(runs), "found")
    expected = sorted((run.run_id,) for run in runs if hidden_for_long(run.looks))
    assert sorted(found.rows) == expected
    assert 10 < len(expected) < len(runs) - 10
