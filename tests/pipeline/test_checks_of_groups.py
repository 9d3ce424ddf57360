"""Changes of state (I12) and committed offsets (I14): three judges find planted violations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from highwater_checker.finding import CheckResult
from highwater_checker.history import COMMIT, FETCH_COMMITTED, HistoryEvent, OperationType
from highwater_checker.invariants.committed_offsets import check_committed_offsets, has_commits
from highwater_checker.invariants.coordinators import check_coordinators, has_coordinators
from highwater_checker.invariants.transitions import (
    STATE_CHANGES,
    VALID_PREVIOUS,
    check_transitions,
)
from highwater_core.events import EventKind as Kind
from highwater_core.events import TraceEvent
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_pipeline.checks.registry import CHECKS
from tests.pipeline.event_runs import CONTROLLER, file_of, traced
from tests.pipeline.frames import Run
from tests.pipeline.judges import (
    Judges,
    Opinions,
    opinions_of_duckdb,
    opinions_of_python,
    opinions_of_spark,
)
from tests.pipeline.record_histories import Planted

INVOKE, OK, FAIL, INFO = OperationType

# ---------------------------------------------------------------- the checker, fed


def _transitions(run: Run) -> CheckResult | None:
    events = _events(run)
    is_asked = any(each.kind in STATE_CHANGES for each in events)
    return check_transitions(events) if is_asked else None


def _coordinators(run: Run) -> CheckResult | None:
    events = _events(run)
    return check_coordinators(events) if has_coordinators(events) else None


def _committed_offsets(run: Run) -> CheckResult | None:
    events = [event for history in run.histories().values() for event in history]
    incomplete = run.incomplete_histories()
    return check_committed_offsets(events, incomplete) if has_commits(events) else None


def _events(run: Run) -> list[TraceEvent]:
    return sorted(run.events, key=lambda each: (file_of(each), each.seq))


PYTHON: Judges = {
    "transitions": _transitions,
    "coordinators": _coordinators,
    "committed_offsets": _committed_offsets,
}

# ---------------------------------------------------------------- planted runs


def changed(kind: Kind, before: str, after: str, **fields: Any) -> TraceEvent:
    detail = {"from_state": before, "to_state": after}
    event = TraceEvent(0, CONTROLLER, 1, 0, kind, "t", partition=0, detail=detail)
    return replace(event, **fields)


def grouped(kind: Kind, **detail: int) -> TraceEvent:
    return TraceEvent(0, 3, 1, 0, kind, OFFSETS_TOPIC, partition=2, leader_epoch=4, detail=detail)


def operation(
    number: int,
    function: str,
    offset: int,
    begun_ns: int,
    ended_ns: int,
    outcome: OperationType | None = OK,
    **fields: Any,
) -> list[HistoryEvent]:
    """Return an operation's lines; one without an outcome never completed."""
    end = HistoryEvent(
        ended_ns, outcome or INFO, number, "g1", function, "t", 0, "orders", offset, **fields
    )
    begun = replace(end, time_ns=begun_ns, type=INVOKE)
    if function == FETCH_COMMITTED:
        begun = replace(begun, offset=-1)
    return [begun] if outcome is None else [begun, end]


def commit(number: int, offset: int, *at_ns: int, **fields: Any) -> list[HistoryEvent]:
    return operation(number, COMMIT, offset, *at_ns, **fields)


def fetch(number: int, offset: int, *at_ns: int, **fields: Any) -> list[HistoryEvent]:
    return operation(number, FETCH_COMMITTED, offset, *at_ns, **fields)


def with_events(*events: TraceEvent) -> Run:
    return Run("", events=traced(events))


def with_history(*operations: Sequence[HistoryEvent]) -> Run:
    return Run("", [line for each in operations for line in each])


LED, FOLLOWED = grouped(Kind.BECAME_LEADER), grouped(Kind.BECAME_FOLLOWER)
STOPPED, RISEN = grouped(Kind.REPLICA_STOPPED), grouped(Kind.HIGH_WATERMARK_ADVANCED)
BEGUN = grouped(Kind.GROUP_LOAD_BEGUN, epoch_start_offset=5)
WAITED, UNLOADED = grouped(Kind.GROUP_LOAD_WAITED), grouped(Kind.GROUP_UNLOADED)
ENDED = grouped(Kind.GROUP_LOAD_ENDED, read_up_to=5)
EARLY = grouped(Kind.GROUP_LOAD_ENDED, read_up_to=4)
FROM_ANY = replace(BEGUN, detail={"epoch_start_offset": 0})
MADE = Kind.PARTITION_STATE_CHANGED
CLOSED = replace(LED, detail={**LED.detail, "is_open": False})
OPENED = replace(WAITED, kind=Kind.ISR_CHANGED, detail={"isr": [3], "partition_epoch": 1})
TERM = (LED, BEGUN, ENDED)
FIRST, SECOND = commit(0, 1, 10, 11), commit(1, 2, 20, 21)


WRONG = {"coordinators": [("I14", -1, 3)]}
LOST = {"committed_offsets": [("I14", -1, -1)]}
PLANTED = [
    Planted("nothing", Run(""), {}),
    # ------------------------------------------------ I12
    Planted("a sound change", with_events(changed(MADE, "NewPartition", "OnlinePartition")), {}),
    Planted(
        "an election outside its table",
        with_events(changed(MADE, "NonExistentPartition", "OnlinePartition")),
        {"transitions": [("I12", -1, -1)]},
    ),
    Planted(
        "a replica that was deleted is online",
        with_events(
            changed(Kind.REPLICA_STATE_CHANGED, "NonExistentReplica", "OnlineReplica"),
            changed(Kind.REPLICA_STATE_CHANGED, "NoSuchState", "OnlineReplica", topic=None),
        ),
        {"transitions": [("I12", -1, -1)] * 2},
    ),
    Planted(
        "a change that the tables refuse was attempted",
        with_events(changed(Kind.TRANSITION_REFUSED, "NewPartition", "OnlinePartition")),
        {"transitions": [("I12", -1, -1)]},
    ),
    Planted(
        "an election finds nobody, and a replica that leads was to start anew",
        with_events(
            changed(Kind.STATE_CHANGE_FAILED, "NewPartition", "OnlinePartition"),
            changed(Kind.STATE_CHANGE_FAILED, "NonExistentReplica", "NewReplica", partition=None),
        ),
        {"transitions": [("I12", -1, -1)]},
    ),
    # ------------------------------------------------ I14, by traces
    Planted(
        "groups come and go with the lead",
        with_events(LED, RISEN, BEGUN, WAITED, ENDED, LED, FOLLOWED, UNLOADED, LED, BEGUN, ENDED),
        {},
    ),
    Planted("a leader that begins closed", with_events(CLOSED, OPENED, BEGUN, ENDED, OPENED), {}),
    Planted("a closed leader ends its term", with_events(*TERM, CLOSED, UNLOADED, OPENED), {}),
    Planted("a closed leader keeps its groups", with_events(*TERM, CLOSED, OPENED), WRONG),
    Planted("a closed leader loads groups", with_events(CLOSED, BEGUN, ENDED), WRONG),
    Planted(
        "a leader that opens loads no groups", with_events(CLOSED, OPENED, WAITED, BEGUN), WRONG
    ),
    Planted("a replica that is stopped", with_events(LED, BEGUN, ENDED, UNLOADED, STOPPED), {}),
    Planted(
        "it was killed as soon as it led", with_events(LED, BEGUN, FOLLOWED, UNLOADED, LED), {}
    ),
    Planted("a load without the lead", with_events(BEGUN, LED), WRONG),
    Planted(
        "a load that ends after the unload",
        with_events(LED, BEGUN, FOLLOWED, UNLOADED, ENDED),
        WRONG,
    ),
    Planted("a load that ends twice", with_events(LED, BEGUN, ENDED, ENDED), WRONG),
    Planted("a load that stops early", with_events(LED, BEGUN, EARLY), WRONG),
    Planted(
        "a load of a later term is asked for its own beginning",
        with_events(LED, BEGUN, ENDED, FOLLOWED, UNLOADED, LED, FROM_ANY, EARLY),
        {},
    ),
    Planted("a leader loses its groups", with_events(LED, BEGUN, UNLOADED, LED), WRONG),
    Planted("a leader loads no groups", with_events(LED, LED, BEGUN), WRONG),
    Planted("a load of a follower", with_events(FOLLOWED, BEGUN, ENDED), WRONG),
    Planted("a follower keeps its groups", with_events(LED, BEGUN, ENDED, FOLLOWED, LED), WRONG),
    Planted("a stopped one keeps its groups", with_events(LED, BEGUN, ENDED, STOPPED), WRONG),
    Planted(
        "each start and each partition for itself",
        with_events(
            LED,
            BEGUN,
            *(replace(each, partition=1) for each in (LED, BEGUN, ENDED)),
            ENDED,
            *(replace(each, incarnation=2) for each in (ENDED, replace(ENDED, partition=None))),
        ),
        WRONG,
    ),
    Planted(
        "another topic's events",
        with_events(LED, replace(RISEN, topic="t"), replace(FOLLOWED, topic="t"), BEGUN, ENDED),
        {},
    ),
    # ------------------------------------------------ I14, by histories
    Planted("the last commit is told", with_history(FIRST, SECOND, fetch(2, 2, 30, 31)), {}),
    Planted("a commit is lost", with_history(FIRST, SECOND, fetch(2, 1, 30, 31)), LOST),
    Planted("all commits are lost", with_history(FIRST, fetch(2, -1, 30, 31)), LOST),
    Planted(
        "a group goes back", with_history(SECOND, commit(3, 1, 25, 26), fetch(2, 1, 30, 31)), {}
    ),
    Planted("what nobody committed", with_history(FIRST, fetch(2, 7, 30, 31)), LOST),
    Planted(
        "nothing is committed yet, or what was begun",
        with_history(fetch(0, -1, 1, 2), fetch(1, 1, 3, 9), commit(2, 1, 9, 12)),
        {},
    ),
    Planted("it was begun later", with_history(fetch(1, 1, 3, 8), commit(2, 1, 9, 12)), LOST),
    Planted(
        "a commit that nobody knows of takes effect late",
        with_history(commit(0, 1, 5, 6, outcome=INFO), SECOND, fetch(2, 1, 30, 31)),
        {},
    ),
    Planted(
        "a commit without an outcome takes effect late",
        with_history(commit(0, 1, 5, 6, outcome=None), SECOND, fetch(2, 1, 30, 31)),
        {},
    ),
    Planted(
        "a commit that was refused",
        with_history(commit(0, 1, 5, 6, outcome=FAIL), SECOND, fetch(2, 1, 30, 31)),
        LOST,
    ),
    Planted(
        "commits beside each other, in either order",
        with_history(commit(0, 1, 10, 25), SECOND, fetch(2, 1, 30, 31), fetch(3, 2, 32, 33)),
        {},
    ),
    Planted(
        "a commit that ended when the fetch began",
        with_history(FIRST, commit(1, 2, 20, 30), fetch(2, 1, 30, 31)),
        {},
    ),
    Planted(
        "an outcome without its beginning",
        with_history(FIRST, SECOND, commit(5, 1, 22, 23)[1:], fetch(2, 1, 30, 31)),
        LOST,
    ),
    Planted(
        "groups and partitions apart",
        with_history(
            FIRST,
            [replace(each, value="bills", offset=9) for each in SECOND],
            [replace(each, partition=1, operation_id=8) for each in SECOND],
            fetch(2, 1, 30, 31),
        ),
        {},
    ),
    Planted("commits that nobody asks for", with_history(FIRST), {}),
    Planted("fetches of no commits", with_history(fetch(0, 5, 1, 2)), {}),
]

# ---------------------------------------------------------------- generated runs

STATES = sorted({*VALID_PREVIOUS, "NoSuchState"})
ALL_CHANGES = [
    Run(f"{kind.value} of all states", events=traced(
        changed(kind, before, after) for before, after in product(STATES, STATES)
    ))
    for kind in STATE_CHANGES
]  # fmt: skip
"""Each kind of change from every state to every state."""
GENERATED = 200
ENOUGH = 5
"""Of the generated runs, how many each check must find something in, and nothing in."""
OFTEN = [LED, BEGUN, ENDED, FOLLOWED, UNLOADED]
SELDOM = [STOPPED, CLOSED, OPENED, RISEN, WAITED, EARLY, FROM_ANY]
TERMS = [TERM, (CLOSED, OPENED, BEGUN, ENDED), (FOLLOWED, UNLOADED), (UNLOADED, STOPPED), (RISEN,)]


@st.composite
def group_events(draw: st.DrawFn) -> list[TraceEvent]:
    """Draw terms of coordinators in order, and now and then an event that is not due."""
    found: list[TraceEvent] = []
    for term in draw(st.lists(st.sampled_from(TERMS), max_size=5)):
        found += term
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        odd = draw(st.sampled_from(OFTEN + SELDOM))
        found.insert(draw(st.integers(0, len(found))), odd)
    others = draw(st.sets(st.integers(0, 20), max_size=2))
    return [
        replace(each, partition=1) if index in others else each for index, each in enumerate(found)
    ]


@st.composite
def group_histories(draw: st.DrawFn) -> list[HistoryEvent]:
    """Draw operations of one client, each after the other or beside it."""
    found: list[HistoryEvent] = []
    committed = -1
    for number in range(draw(st.integers(0, 8))):
        begun_ns = 10 * number
        ended_ns = begun_ns + draw(st.sampled_from([0, 1, 1, 1, 10, 25]))
        outcome = draw(st.sampled_from([OK, OK, OK, OK, INFO, FAIL, None]))
        group = draw(st.sampled_from(["orders"] * 8 + ["bills"]))
        if draw(st.booleans()):
            offset = draw(st.integers(0, 3))
            lines = commit(number, offset, begun_ns, ended_ns, outcome=outcome)
            committed = offset if outcome is OK else committed
        else:
            offset = draw(st.sampled_from([committed] * 6 + [-1, 0, 1]))
            lines = fetch(number, offset, begun_ns, ended_ns, outcome=outcome)
        found += [replace(each, value=group) for each in lines]
    return sorted(found, key=lambda each: each.time_ns)


def generated_runs() -> list[Run]:
    drawn: list[Run] = []

    @settings(max_examples=GENERATED, deadline=None, suppress_health_check=list(HealthCheck))
    @given(group_events(), group_histories(), st.sampled_from([()] * 8 + [("g1",), ("m9",)]))
    def draw(events: list[TraceEvent], history: list[HistoryEvent], incomplete: Any) -> None:
        name = f"generated-{len(drawn)}"
        drawn.append(Run(name, history, events=traced(events), incomplete=incomplete))

    draw()
    return drawn


# ---------------------------------------------------------------- three judges


@pytest.fixture(scope="module")
def evidence() -> dict[str, Run]:
    planted = [replace(each.run, run_id=each.name) for each in PLANTED]
    return {run.run_id: run for run in (*planted, *ALL_CHANGES, *generated_runs())}


@pytest.fixture(scope="module")
def python(evidence: dict[str, Run]) -> Opinions:
    return opinions_of_python(PYTHON, evidence.values())


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, evidence: dict[str, Run]) -> Opinions:
    return opinions_of_spark(spark, {name: CHECKS[name] for name in PYTHON}, [*evidence.values()])


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.name)
def test_planted_violations_are_found_and_nothing_else(
    planted: Planted, pipeline: Opinions
) -> None:
    found = {
        name: [(row[1], row[4], row[5]) for row in pipeline[name, planted.name].findings]
        for name in PYTHON
        if (name, planted.name) in pipeline
    }
    assert {name: rows for name, rows in found.items() if rows} == planted.found


def test_spark_agrees_with_the_checker_to_the_letter(
    evidence: dict[str, Run], python: Opinions, pipeline: Opinions
) -> None:
    assert pipeline.keys() == python.keys()
    for key, opinion in python.items():
        assert pipeline[key] == opinion, evidence[key[1]]


def test_duckdb_agrees_with_the_checker_too(evidence: dict[str, Run], python: Opinions) -> None:
    duckdb = opinions_of_duckdb(PYTHON, [*evidence.values()])
    assert duckdb.keys() == python.keys()
    for key, opinion in python.items():
        assert duckdb[key] == opinion, evidence[key[1]]


@pytest.mark.parametrize("name", PYTHON)
def test_runs_are_neither_all_sound_nor_all_broken(name: str, python: Opinions) -> None:
    told = [each for (check, _), each in python.items() if check == name]
    planted = {each.name for each in PLANTED}
    drawn = [each for (check, run), each in python.items() if check == name and run not in planted]
    asked = told if name == "transitions" else drawn
    least = 1 if name == "transitions" else ENOUGH
    assert sum(bool(each.findings) for each in asked) >= least
    assert sum(each.examined > 0 and not each.findings for each in asked) >= least


def test_a_check_has_the_name_that_the_checker_gives_it(evidence: dict[str, Run]) -> None:
    names = {
        name: result.check
        for name, judge in PYTHON.items()
        for run in evidence.values()
        if (result := judge(run)) is not None
    }
    assert {name: CHECKS[name].name for name in PYTHON} == names


def test_each_check_finds_something_planted() -> None:
    assert {name for each in PLANTED for name in each.found} == set(PYTHON)
