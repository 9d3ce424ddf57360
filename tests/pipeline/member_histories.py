"""Histories of groups' members, planted and generated, beside a producer's and its logs.

p0 is acknowledged the records a, b, c, d at offsets 0 to 3 of t-0, before any member begins; two
brokers hold them. Members are m0, m0.2 and m1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater_checker.history import ASSIGNED, COMMIT, POLL, RESET, HistoryEvent, OperationType
from highwater_core.events import EventKind, TraceEvent
from tests.pipeline.event_runs import traced
from tests.pipeline.frames import Run
from tests.pipeline.record_histories import batch, log, send

INVOKE, OK, FAIL, INFO = OperationType
VALUES = "abcd"
BEGUN_NS = 100
"""When the first member begins."""
SENT = [line for at, value in enumerate(VALUES) for line in send("p0", at, value, at)]
HELD = batch(0, *VALUES)
LOGS = (log(0, HELD, high_watermark=4), log(1, HELD, high_watermark=4))
Part = Sequence[HistoryEvent]


def assigned(
    process: str,
    generation: int,
    *partitions: int,
    offset: int = -1,
    number: int | None = None,
    instance: str = "",
    group: str = "g",
) -> list[HistoryEvent]:
    """Return a line for each partition, or one of none; each generation's has its own number."""
    operation = generation if number is None else number
    return [
        HistoryEvent(
            0, OK, operation, process, ASSIGNED, *at, group, offset,
            key=instance, generation=generation,
        )
        for at in [("t", each) for each in partitions] or [("", -1)]
    ]  # fmt: skip


def read(process: str, *offsets: int, kind: OperationType = OK, **fields: Any) -> Part:
    return [
        replace(HistoryEvent(0, kind, 9, process, POLL, "t", 0, "a", each), **fields)
        for each in offsets
    ]


def reset(process: str, offset: int) -> Part:
    return read(process, offset, function=RESET, value="earliest")


def commit(
    process: str, offset: int = 0, outcome: OperationType | None = OK, **fields: Any
) -> list[HistoryEvent]:
    """Return a commit's lines; one without an outcome never completed."""
    begun = replace(HistoryEvent(0, INVOKE, 9, process, COMMIT, "t", 0, "g", offset), **fields)
    return [begun] if outcome is None else [begun, replace(begun, type=outcome)]


def in_turn(*parts: Part) -> list[HistoryEvent]:
    """Return the lines, one each nanosecond."""
    lines = (each for part in parts for each in part)
    return [replace(each, time_ns=BEGUN_NS + at) for at, each in enumerate(lines)]


def at_once(*parts: Part) -> list[HistoryEvent]:
    """Return the lines, all at one time."""
    return [replace(each, time_ns=BEGUN_NS) for part in parts for each in part]


def run_of(*parts: Part, **fields: Any) -> Run:
    """Return a run in which members did this, in turn."""
    return replace(Run("", [*SENT, *in_turn(*parts)], {"p0": -1}, replicas=LOGS), **fields)


def group_gone(group: str, reason: str = "GROUP_ID_NOT_FOUND") -> tuple[TraceEvent, ...]:
    """Return the trace of a coordinator for which the group is dead."""
    detail = {"group": group, "to_state": "Dead", "reason": reason}
    return traced([TraceEvent(0, 0, 1, 0, EventKind.GROUP_STATE_CHANGED, detail=detail)])


# ---------------------------------------------------------------- generated

GENERATED = 300
SELDOM = [False] * 7 + [True]


class _Group:
    """The state of a sound group: each partition's member, committed offset and next read."""

    def __init__(self) -> None:
        self.generation = 0
        self.owners: dict[int, str] = {}
        self.committed = {0: 0, 1: 0}
        self.read_up_to = {0: 0, 1: 0}


@st.composite
def histories(draw: st.DrawFn) -> list[HistoryEvent]:
    """Draw rebalances, reads and commits of a group in order; a few of them are out of order."""
    group, found, now_ns = _Group(), [], BEGUN_NS
    steps = [_rebalance, _read, _read, _read, _commit, _commit, _reset]
    for each in [_rebalance, *draw(st.lists(st.sampled_from(steps), max_size=9))]:
        for line in each(draw, group):
            now_ns += draw(st.sampled_from([0, 1, 1, 1]))
            group_id = draw(st.sampled_from(["g"] * 30 + ["h"]))
            value = line.value if line.value != "g" else group_id
            found.append(replace(line, time_ns=now_ns, value=value))
    return found


def _rebalance(draw: st.DrawFn, group: _Group) -> Part:
    """Some processes share the partitions in the next generation; seldom in one that was."""
    group.generation += draw(st.sampled_from([1, 1, 1, 1, 1, 0, -1]))
    instance = draw(st.sampled_from(["", "", "i"]))
    processes = draw(st.permutations(["m0", "m0.2", "m1"]))
    owners = {0: processes[0], 1: processes[draw(st.sampled_from([0, 1]))]}
    both = [processes[0], processes[1]] if draw(st.sampled_from(SELDOM)) else []
    lines: list[HistoryEvent] = []
    for process in processes[: draw(st.sampled_from([2, 2, 3]))]:
        for partition in (0, 1):
            if owners[partition] == process or (process in both and partition == 0):
                offset = group.committed[partition] or -1
                lines += assigned(
                    process, group.generation, partition, offset=offset, instance=instance
                )
        if process not in owners.values():
            lines += assigned(process, group.generation, instance=instance)
    group.owners = owners
    group.read_up_to = dict(group.committed)
    return lines


def _chosen(draw: st.DrawFn, group: _Group) -> tuple[str, int]:
    """Return a partition, and its owner; seldom another process."""
    partition = draw(st.sampled_from([0, 0, 0, 1]))
    others = st.sampled_from(["m0", "m0.2", "m1", "c0"])
    is_odd = draw(st.sampled_from(SELDOM))
    return draw(others) if is_odd else group.owners[partition], partition


def _read(draw: st.DrawFn, group: _Group) -> Part:
    process, partition = _chosen(draw, group)
    begin = group.read_up_to[partition]
    begin += draw(st.sampled_from([0] * 6 + [1, -1]))
    end = max(min(begin + draw(st.integers(1, 3)), len(VALUES)), begin)
    group.read_up_to[partition] = max(end, 0)
    return read(process, *range(begin, end), partition=partition)


def _commit(draw: st.DrawFn, group: _Group) -> Part:
    process, partition = _chosen(draw, group)
    offset = group.read_up_to[partition] + draw(st.sampled_from([0] * 6 + [1, -1]))
    outcome = draw(st.sampled_from([OK] * 6 + [FAIL, INFO, None]))
    group.committed[partition] = max(offset, 0)
    return commit(process, max(offset, 0), outcome, partition=partition)


def _reset(draw: st.DrawFn, group: _Group) -> Part:
    process, partition = _chosen(draw, group)
    offset = group.read_up_to[partition] = draw(st.sampled_from([0, 0, 2]))
    return [replace(each, partition=partition) for each in reset(process, offset)]


def generated_runs() -> list[Run]:
    """Return runs whose members are drawn; in some a log, an acknowledgement or a group is gone."""
    drawn: list[Run] = []
    logs = st.sampled_from([LOGS, LOGS, LOGS, LOGS[:1], (log(0, batch(0, "a", "x")), LOGS[1])])
    incomplete = st.sampled_from([()] * 36 + [("m0",), ("m0.2", "p0"), ("c0",), ("m9",)])
    gone = st.sampled_from([()] * 9 + [group_gone("g")])

    @settings(max_examples=GENERATED, deadline=None, suppress_health_check=list(HealthCheck))
    @given(histories(), logs, gone, st.sampled_from([-1, -1, -1, 1]), incomplete)
    def draw(lines: list[HistoryEvent], logs: Any, gone: Any, acks: int, few: Any) -> None:
        name, evidence = f"generated-{len(drawn)}", {"replicas": logs, "events": gone}
        drawn.append(Run(name, [*SENT, *lines], {"p0": acks}, **evidence, incomplete=few))

    draw()
    return drawn
