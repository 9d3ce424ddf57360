"""The judge of a run's folder: damaged or missing evidence is reported, and never helps a run."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.history import OperationType
from highwater_checker.judging import judge_run
from highwater_checker.looks import Look, encode_look
from highwater_checker.run_folder.documents import (
    CLOCK,
    EXCUSED,
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    WATCHED,
    Excused,
    PromisedProducer,
    PromisedTopic,
    RunStart,
)
from highwater_checker.run_folder.evidence_lines import evidence_of
from highwater_checker.run_folder.names import LOOKS
from highwater_checker.verdict import Outcome, Requirement, Verdict
from highwater_core.events import BY_RETENTION, EventKind
from highwater_core.ids import NodeId, Offset, TopicId
from highwater_core.traces import decode_events, encode_event
from highwater_wire.kafka.record_batch import build_batch
from tests.support.run_on_disk import (
    BOTH,
    READ,
    SEGMENT,
    SENT,
    broker,
    history_line,
    segment,
    write,
    write_run,
)

Damage = Callable[[Path], object]
RETAINED = {"reason": BY_RETENTION}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def reasons_of(verdict: Verdict) -> str:
    return "\n".join(verdict.reasons)


def test_a_sound_run_passes_by_all_its_checks(run: Path) -> None:
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.PASS, reasons_of(verdict)
    assert len(verdict.checks) == 14
    assert all(check.examined for check in verdict.checks)


def test_what_is_met_has_no_evidence_that_denies_it(run: Path) -> None:
    met = {each.name: each.evidence for each in judge_run(run).requirements if each.met}
    assert {met[f"{client} left a history"] for client in ("producer p0", "consumer c0")} == {""}
    denials = ("there is none", "no replica was read", " do")
    assert [each for each in met.values() if any(word in each for word in denials)] == []


def test_the_verdict_is_the_same_wherever_the_folder_is(run: Path, tmp_path: Path) -> None:
    segment(run, 1).write_bytes(b"")
    copied = shutil.copytree(run, tmp_path / "elsewhere")
    assert judge_run(copied) == judge_run(run)


def test_judging_changes_nothing_in_the_folder(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    judge_run(run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


# ---------------------------------------------------------------- missing or damaged evidence


@pytest.mark.parametrize("name", ["promises.json", "requirements.json", "final_look.json"])
@pytest.mark.parametrize("damage", ["gone", "half", "other", "no text"])
def test_a_document_that_is_missing_or_damaged_is_reported(
    run: Path, name: str, damage: str
) -> None:
    path = run / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        changed = {"half": content[:-9], "other": b'[{"name": 7}]', "no text": b"\xff" + content}
        path.write_bytes(changed[damage])
    verdict = judge_run(run)
    assert verdict.outcome is not Outcome.PASS
    assert name in reasons_of(verdict)


HISTORIES: dict[str, tuple[bytes, str]] = {
    "half a line in the middle": (SENT[:-30] + b"\n" + SENT, "p0.jsonl: line 2"),
    "no text": (SENT + b"\xff\xff\n" + SENT[:0] + SENT, "p0.jsonl: line 3"),
    "an outcome without its send": (
        SENT + history_line(OperationType.OK, 1),
        "p0.jsonl: 1 lines of sends without a counterpart or an offset",
    ),
    "an outcome twice": (
        SENT + history_line(OperationType.OK),
        "p0.jsonl: 1 lines of sends without a counterpart or an offset",
    ),
    "a send begun anew": (
        history_line(OperationType.INVOKE) + SENT,
        "p0.jsonl: 1 lines of sends without a counterpart or an offset",
    ),
    "half a line at the end": (SENT + SENT[:30], "those of ['p0'] do"),
    "another process's": (
        SENT + SENT.replace(b'"process":"p0"', b'"process":"p9"'),
        "p0.jsonl: 2 lines of another process",
    ),
    "an acknowledged commit without its beginning": (
        SENT + history_line(OperationType.OK, 1).replace(b'"send"', b'"commit"'),
        "p0.jsonl: 1 lines of commits without a counterpart",
    ),
}


@pytest.mark.parametrize(("content", "what"), HISTORIES.values(), ids=list(HISTORIES))
def test_a_damaged_history_is_reported_and_its_run_is_no_pass(
    run: Path, content: bytes, what: str
) -> None:
    (run / "history" / "p0.jsonl").write_bytes(content)
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert what in reasons_of(verdict)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("history/p0.jsonl", "producer p0 left a history: there is none"),
        ("history/c0.jsonl", "consumer c0 left a history: there is none"),
        ("trace/broker-1-1.jsonl", "node 1, incarnation 1: no trace"),
    ],
    ids=["producer", "consumer", "node"],
)
def test_a_file_that_is_gone_takes_no_finding_with_it(run: Path, name: str, what: str) -> None:
    """Found: without the file that showed it, a run that had failed passed."""
    (run / name).unlink()
    verdict = judge_run(run)
    assert verdict.outcome is not Outcome.PASS
    assert what in reasons_of(verdict)


@pytest.mark.parametrize("name", ["snapshots.jsonl", "probes.jsonl", "watched.json"])
def test_a_missing_file_that_the_run_listed_is_reported(run: Path, name: str) -> None:
    """Found: its check was dropped without a word."""
    promise(run, kept=(name,))
    verdict = judge_run(run)
    assert (verdict.outcome, reasons_of(verdict)) == (
        Outcome.UNKNOWN,
        f"segments decode: {name} is missing",
    )


@pytest.mark.parametrize(
    ("later", "missing"),
    [(["p0.3"], "p0.2"), (["p0.2", "p0.4", "p0.999999999"], "p0.3"), (["admin.2"], "admin")],
)
def test_a_start_of_a_client_without_a_history_is_reported(
    run: Path, later: list[str], missing: str
) -> None:
    for process in later:
        (run / "history" / f"{process}.jsonl").write_bytes(b"")
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert f"every start of a client left a history: there is none of ['{missing}']" in reasons_of(
        verdict
    )


def test_partitions_that_were_read_are_compared_by_their_names(run: Path) -> None:
    """Found: they were counted, and one of another topic stood in for one that was lost."""
    promise(run, topics=(PromisedTopic("t", 1, 2), PromisedTopic("u", 1, 2)))
    assert "not read: u-0" in reasons_of(judge_run(run))


def test_without_a_look_at_the_end_nothing_is_asked_of_it(run: Path) -> None:
    (run / "final_look.json").unlink()
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "segments decode: final_look.json is missing" in verdict.reasons
    assert "acknowledged records are on every replica (I1)" not in {
        check.check for check in verdict.checks
    }


def leave_behind(run: Path, isr: tuple[NodeId, ...]) -> None:
    """Let broker 1 have an empty log, and the leader an ISR of these."""
    segment(run, 1).write_bytes(b"")
    leader = replace(broker(0).replicas[0], isr=isr)
    look = Look(99, {0: replace(broker(0), replicas=(leader,)), 1: broker(1)})
    write(run / FINAL_LOOK.name, FINAL_LOOK.encode(look))


def test_of_replicas_out_of_the_isr_nothing_is_asked_where_they_may_stay_so(run: Path) -> None:
    leave_behind(run, (NodeId(0),))
    told = reasons_of(judge_run(run))
    assert "I3: t-0, offset 0, broker 1" in told, "it said that it had what is committed"
    assert "every replica was in the ISR at the end" in told
    promise(run, only_in_sync=True)
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.PASS, reasons_of(verdict)
    leave_behind(run, BOTH)
    assert "I1: t-0, offset 0, broker 1" in reasons_of(judge_run(run))


def test_of_partitions_without_a_leader_nothing_is_asked_where_they_may_stay_so(run: Path) -> None:
    write(run / FINAL_LOOK.name, FINAL_LOOK.encode(Look(99, {0: None, 1: broker(1)})))
    assert "t-0: no replica was read" in reasons_of(judge_run(run))
    promise(run, only_in_sync=True)
    verdict = judge_run(run)
    assert not [finding for check in verdict.checks for finding in check.findings]
    assert "every replica of every partition was read" not in reasons_of(verdict)
    assert verdict.outcome is Outcome.UNKNOWN, "nothing was examined"


@pytest.mark.parametrize("name", ["history/p0.jsonl", "trace/broker-1-1.jsonl", "snapshots.jsonl"])
def test_a_damaged_last_line_is_torn_only_where_it_has_no_end(run: Path, name: str) -> None:
    with (run / name).open("ab") as file:
        file.write(b'{"half": \n')
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert f"{Path(name).name}: line " in reasons_of(verdict)


@pytest.mark.parametrize(
    ("numbers", "what"),
    [
        ([0, 2, 4], "seq 2 where 1 is due"),
        ([0, 1, 1], "seq 1 where 2 is due"),
        ([1, 2, 3], "seq 1 where 0 is due"),
        ([0, 1, 2], ""),
    ],
)
def test_a_gap_in_a_traces_numbers_is_reported(run: Path, numbers: list[int], what: str) -> None:
    path = run / "trace" / "broker-1-1.jsonl"
    (event,) = decode_events([path.read_bytes()])
    lines = (encode_event(replace(event, seq=number)) + b"\n" for number in numbers)
    path.write_bytes(b"".join(lines))
    verdict = judge_run(run)
    expected = f"segments decode: node 1, incarnation 1: {what}" if what else ""
    assert reasons_of(verdict) == expected
    assert verdict.outcome is (Outcome.UNKNOWN if what else Outcome.PASS)


def test_a_log_start_above_the_traced_retention_is_reported(run: Path) -> None:
    """Found: a start that rose for no reason hid acknowledged records that were lost."""
    segment(run, 1).write_bytes(b"")
    replica = replace(broker(1).replicas[0], log_start_offset=Offset(1))
    look = Look(99, {0: broker(0), 1: replace(broker(1), replicas=(replica,))})
    write(run / FINAL_LOOK.name, FINAL_LOOK.encode(look))
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "t-0 of broker 1: it starts at 1, and no trace says that retention" in reasons_of(
        verdict
    )
    path = run / "trace" / "broker-0-1.jsonl"
    (event,) = decode_events([path.read_bytes()])
    moved = replace(event, seq=1, kind=EventKind.LOG_START_MOVED, offset=1, detail={})
    before = path.read_bytes()
    for detail, is_told in (({"reason": "as the leader's"}, True), ({}, False), (RETAINED, False)):
        path.write_bytes(before + encode_event(replace(moved, detail=detail)) + b"\n")
        assert ("it starts at" in reasons_of(judge_run(run))) is is_told, detail


def test_retention_of_an_earlier_topic_of_the_name_explains_no_start(run: Path) -> None:
    segment(run, 1).write_bytes(b"")
    replica = replace(broker(1).replicas[0], log_start_offset=Offset(1))
    look = Look(99, {0: broker(0), 1: replace(broker(1), replicas=(replica,))})
    write(run / FINAL_LOOK.name, FINAL_LOOK.encode(look))
    path = run / "trace" / "broker-0-1.jsonl"
    (led,) = decode_events([path.read_bytes()])
    first, second = TopicId("first"), TopicId("second")
    moved = replace(led, kind=EventKind.LOG_START_MOVED, offset=1, detail={})
    begun = replace(led, seq=1, ts_ns=7, topic_id=second)
    deleted = replace(led, node=1000, kind=EventKind.TOPIC_DELETED, partition=None, detail={})
    write(run / "trace" / "controller-1000-1.jsonl", encode_event(deleted) + b"\n")
    for topic_id, is_told in ((first, True), (second, False)):
        of_life = replace(moved, seq=2, ts_ns=8, topic_id=topic_id)
        lines = (replace(led, topic_id=first), begun, of_life)
        path.write_bytes(b"".join(encode_event(each) + b"\n" for each in lines))
        assert ("it starts at 1" in reasons_of(judge_run(run))) is is_told


def test_a_history_of_no_process_is_reported(run: Path) -> None:
    (run / "history" / "c0.bak.jsonl").write_bytes(READ)
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "c0.bak.jsonl: no process has such a name" in reasons_of(verdict)


def test_half_a_line_of_a_client_that_was_killed_is_nothing(run: Path) -> None:
    (run / "history" / "p0.jsonl").write_bytes(SENT + SENT[:30])
    (run / "history" / "p0.2.jsonl").write_bytes(b"")
    assert judge_run(run).outcome is Outcome.PASS


@pytest.mark.parametrize("attributes", [0, 3, 4], ids=["garbage", "lz4", "zstd"])
def test_records_that_cannot_be_decoded_are_reported(run: Path, attributes: int) -> None:
    batch = bytearray(build_batch([(None, b"v" * 30, 1)], 0, 0))
    struct.pack_into(">h", batch, 21, attributes)
    batch[61:] = b"\xff" * len(batch[61:])
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    segment(run, 1).write_bytes(bytes(batch))
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "t-0 of broker 1: batch at 0: " in reasons_of(verdict)


@pytest.mark.parametrize("key", [None, b"k"], ids=["no key", "short key"])
def test_a_control_batch_whose_key_names_no_marker_is_reported(
    run: Path, key: bytes | None
) -> None:
    """Found: the key was unpacked without asking for its size, and there was no verdict."""
    batch = bytearray(build_batch([(key, b"v0", 1)], 0, 0))
    struct.pack_into(">h", batch, 21, 1 << 5)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    segment(run, 1).write_bytes(bytes(batch))
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    what = "t-0 of broker 1: batch at 0: its bytes are no whole records"
    assert what in reasons_of(verdict)


BARE_EVENTS = (
    EventKind.LOG_COMPACTED,
    EventKind.GROUP_LOAD_BEGUN,
    EventKind.GROUP_LOAD_ENDED,
    EventKind.TOPICS_CHANGED,
)


@pytest.mark.parametrize("kind", BARE_EVENTS)
def test_an_event_without_the_details_of_its_kind_is_reported(run: Path, kind: EventKind) -> None:
    """Found: checks of compaction and of coordinators read them, and there was no verdict."""
    path = run / "trace" / "broker-0-1.jsonl"
    (led,) = decode_events([path.read_bytes()])
    bare = replace(led, seq=1, kind=kind, detail={})
    path.write_bytes(path.read_bytes() + encode_event(bare) + b"\n")
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert f"broker-0-1.jsonl: line 2: {kind} without its " in reasons_of(verdict)


def test_a_replicas_missing_folder_is_reported(run: Path) -> None:
    shutil.rmtree(segment(run, 1).parent)
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "t-0 of broker 1: it has no folder" in reasons_of(verdict)
    assert "not read: t-0@1" in reasons_of(verdict)


DAMAGED_LOGS: dict[str, tuple[Damage, str]] = {
    "a byte short": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "I3"),
    "no batch at all": (lambda path: path.write_bytes(b"no batch at all"), "I3"),
    "empty": (lambda path: path.write_bytes(b""), "I1"),
}


@pytest.mark.parametrize(("damage", "invariant"), DAMAGED_LOGS.values(), ids=list(DAMAGED_LOGS))
def test_a_log_that_is_not_whole_fails_its_run(run: Path, damage: Damage, invariant: str) -> None:
    damage(segment(run, 1))
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.FAIL
    found = [finding for check in verdict.checks for finding in check.findings]
    assert invariant in {finding.invariant for finding in found}
    assert all(finding.topic == "t" and finding.partition == 0 for finding in found)


@pytest.mark.parametrize(
    "name", ["history/p0.jsonl", "trace/broker-0-1.jsonl", "snapshots.jsonl", "promises.json",
             f"segments/broker-1/t-0/{SEGMENT}"]
)  # fmt: skip
def test_an_entry_that_is_no_file_is_reported(run: Path, name: str) -> None:
    path = run / name
    path.unlink(missing_ok=True)
    path.mkdir()
    verdict = judge_run(run)
    assert verdict.outcome is not Outcome.PASS
    assert "directory" in reasons_of(verdict)


@pytest.mark.parametrize(
    "name", ["history/p0.jsonl", "trace/broker-0-1.jsonl", "snapshots.jsonl", "promises.json",
             f"segments/broker-1/t-0/{SEGMENT}"]
)  # fmt: skip
def test_a_pipe_in_the_place_of_a_file_is_reported(run: Path, name: str) -> None:
    """Found: the judge waited for its writer for ever."""
    path = run / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    verdict = judge_run(run)
    assert verdict.outcome is not Outcome.PASS
    assert "not a regular file" in reasons_of(verdict)


def test_a_kept_file_whose_name_is_too_long_is_missing(run: Path) -> None:
    """Found: the system's refusal of the name ended the judge."""
    promise(run, kept=("x" * 5_000,))
    assert "xxx is missing" in reasons_of(judge_run(run))


def test_more_partitions_than_a_cluster_can_have_are_no_promise(run: Path) -> None:
    """Found: each of them was looked for, for hours."""
    promise(run, topics=(PromisedTopic("t", 10**12, 2),))
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "promises.json: wrong: " in reasons_of(verdict)


@pytest.mark.parametrize("name", [LOOKS, FINAL_LOOK.name])
def test_lines_of_evidence_are_found_beside_unreadable_ones(run: Path, name: str) -> None:
    """Found: a folder in a trace's place, or a look nested too deep, ended `judge --json`."""
    (run / name).write_bytes(b'{"a":' * 100_000 + b"\n")
    (run / "trace" / "x.jsonl").mkdir()
    shown = Finding("I4", "shown", traced=(Traced(0, 1, 0),), looks=(99,))
    (lines,) = evidence_of(run, [shown])
    assert "trace/broker-0-1.jsonl" in [line.file for line in lines]


def test_a_line_that_is_nested_too_deep_is_reported(run: Path) -> None:
    path = run / "trace" / "broker-0-1.jsonl"
    deep = b'{"detail":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    path.write_bytes(deep + path.read_bytes())
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "broker-0-1.jsonl: line 1" in reasons_of(verdict)


# ---------------------------------------------------------------- the run's documents


def test_an_unmet_requirement_leaves_the_run_unknown(run: Path) -> None:
    missed = (Requirement("the leader changed", False, "it did not"),)
    write(run / REQUIREMENTS.name, REQUIREMENTS.encode(missed))
    verdict = judge_run(run)
    assert (verdict.outcome, reasons_of(verdict)) == (
        Outcome.UNKNOWN,
        "the leader changed: it did not",
    )


def promise(run: Path, **changes: object) -> None:
    promises = PROMISES.read(run)
    assert promises is not None
    write(run / PROMISES.name, PROMISES.encode(replace(promises, **changes)))  # type: ignore[arg-type]


def test_too_few_acknowledged_records_leave_the_run_unknown(run: Path) -> None:
    promise(run, least_acknowledged=2)
    verdict = judge_run(run)
    assert reasons_of(verdict) == "at least 2 records were acknowledged: 1"


def test_a_later_format_is_reported(run: Path) -> None:
    promise(run, format_version=9)
    assert "of a later format, 9" in reasons_of(judge_run(run))


def test_a_producer_without_acks_all_was_promised_nothing(run: Path) -> None:
    for node in (0, 1):
        segment(run, node).write_bytes(b"")
    (run / "history" / "c0.jsonl").write_bytes(b"")
    assert judge_run(run).outcome is Outcome.FAIL
    promise(run, producers=(PromisedProducer("p0", acks=1),))
    found = [finding for check in judge_run(run).checks for finding in check.findings]
    assert "I1" not in {finding.invariant for finding in found}


def test_a_consumer_must_have_read_all_unless_it_was_not_let(run: Path) -> None:
    (run / "history" / "c0.jsonl").write_bytes(READ[:0])
    assert "was never read" in reasons_of(judge_run(run))
    promise(run, to_the_end=False)
    assert "was never read" not in reasons_of(judge_run(run))
    (run / "history" / "c0.jsonl").unlink()
    assert "consumer c0 left a history" in reasons_of(judge_run(run))


def test_checks_made_while_the_run_went_on_count(run: Path) -> None:
    watched = CheckResult("every event", 7, (Finding("I2", "seen in the run", "t", 0),))
    write(run / WATCHED.name, WATCHED.encode(watched))
    verdict = judge_run(run)
    assert (verdict.outcome, reasons_of(verdict)) == (Outcome.FAIL, "I2: t-0: seen in the run")


def test_records_lost_by_disks_alone_are_no_finding_and_are_noted(run: Path) -> None:
    segment(run, 1).write_bytes(b"")
    write(run / EXCUSED.name, EXCUSED.encode((Excused("t", 0, 1), Excused("u", 0, 0))))
    assert "I1: t-0, offset 0" in reasons_of(judge_run(run)), "it lies before what they lost"
    write(run / EXCUSED.name, EXCUSED.encode((Excused("t", 0, 0),)))
    verdict = judge_run(run)
    found = [finding for check in verdict.checks for finding in check.findings]
    assert {finding.invariant for finding in found} == {"I3"}, "that logs differ is not excused"
    noted = dict(pair for check in verdict.checks for pair in check.noted)
    assert noted["excused by records lost lawfully"] > 0


def test_of_a_simulated_run_that_never_settled_no_log_is_judged_by_a_look_amid_its_faults(
    run: Path,
) -> None:
    look = FINAL_LOOK.read(run)
    assert look is not None
    (run / FINAL_LOOK.name).unlink()
    write(run / LOOKS, encode_look(look) + b"\n")
    by_the_last_look = {check.check for check in judge_run(run).checks}
    promises = PROMISES.read(run)
    assert promises is not None
    write(run / PROMISES.name, PROMISES.encode(replace(promises, only_in_sync=True)))
    left_out = by_the_last_look - {check.check for check in judge_run(run).checks}
    assert "acknowledged records are on every replica (I1)" in left_out


def test_what_comes_after_the_final_look_explains_nothing(run: Path) -> None:
    """Found: when the nodes were stopped, a controller awaited the last one (row 9)."""
    nodes = {node: replace(broker(node), preset="v3") for node in (0, 1)}
    write(run / FINAL_LOOK.name, FINAL_LOOK.encode(Look(99, nodes)))
    write(run / CLOCK.name, CLOCK.encode(RunStart(0, start_wall_ns=1_000)))
    segment(run, 1).write_bytes(b"")
    trace = run / "trace" / "broker-0-1.jsonl"
    (led,) = decode_events(trace.read_bytes().splitlines())
    detail = {"leader": 1, "isr": [1], "unclean": True}
    for at_ns, rows in ((1_099, (10,)), (1_100, ())):
        decided = replace(led, seq=1, ts_ns=at_ns, kind=EventKind.LEADERSHIP_DECIDED, detail=detail)
        trace.write_bytes(b"".join(encode_event(each) + b"\n" for each in (led, decided)))
        lost = next(each for each in judge_run(run).findings if each.invariant == "I1")
        assert lost.rows == rows


@pytest.mark.parametrize(("presets", "rows"), [(("kip101", "classic"), (10,)), (("kip101",), ())])
def test_a_run_of_mixed_presets_is_excused_by_what_one_of_them_lacks(
    run: Path, presets: tuple[str, ...], rows: tuple[int, ...]
) -> None:
    """Under kip101 alone no controller elects from outside the ISR."""
    nodes = {node: replace(broker(node), preset=presets[node % len(presets)]) for node in (0, 1)}
    write(run / FINAL_LOOK.name, FINAL_LOOK.encode(Look(99, nodes)))
    write(run / CLOCK.name, CLOCK.encode(RunStart(0, start_wall_ns=1_000)))
    segment(run, 1).write_bytes(b"")
    trace = run / "trace" / "broker-0-1.jsonl"
    (led,) = decode_events(trace.read_bytes().splitlines())
    detail = {"leader": 1, "isr": [1], "unclean": True}
    decided = replace(led, seq=1, ts_ns=1_099, kind=EventKind.LEADERSHIP_DECIDED, detail=detail)
    trace.write_bytes(b"".join(encode_event(each) + b"\n" for each in (led, decided)))
    lost = next(each for each in judge_run(run).findings if each.invariant == "I1")
    assert lost.rows == rows


def test_a_finding_that_later_events_show_is_explained_by_them(run: Path) -> None:
    nodes = {node: replace(broker(node), preset="v3") for node in (0, 1)}
    write(run / FINAL_LOOK.name, FINAL_LOOK.encode(Look(99, nodes)))
    write(run / CLOCK.name, CLOCK.encode(RunStart(0, start_wall_ns=1_000)))
    trace = run / "trace" / "broker-1-1.jsonl"
    (followed,) = decode_events(trace.read_bytes().splitlines())
    advanced = replace(
        followed, seq=1, node=0, kind=EventKind.HIGH_WATERMARK_ADVANCED, offset=Offset(1),
        detail={"isr": [0, 1], "log_end_offset": 1},
    )  # fmt: skip
    cut = replace(
        followed, seq=1, ts_ns=1_100, kind=EventKind.LOG_TRUNCATED,
        detail={"from_offset": 1, "high_watermark": 0, "reason": "to the high watermark"},
    )  # fmt: skip
    leaders = run / "trace" / "broker-0-1.jsonl"
    leaders.write_bytes(leaders.read_bytes() + encode_event(advanced) + b"\n")
    trace.write_bytes(b"".join(encode_event(each) + b"\n" for each in (followed, cut)))
    found = next(each for each in judge_run(run).findings if each.invariant == "I11")
    assert found.rows == (1,)
