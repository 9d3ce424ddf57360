"""The plans that show the catalogue's bugs on containers, and how a run shows one.

Plans for virtual time hit their moments by the millisecond. On containers a plan waits for states,
and what must be narrow is wide: seconds instead of milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from highwater.bugs.kept import Bug
from highwater.errors import HarnessError
from highwater.project import project_root
from highwater.runs.plans.running import read_plan
from highwater_chaos.plan import Plan
from highwater_checker.catalogue.row import Row
from highwater_checker.requirements import PLAYED_TO_ITS_END, is_of_progress
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import FINAL_LOOK
from highwater_checker.run_folder.evidence import end_of_run
from highwater_checker.run_folder.lines import read_traces
from highwater_checker.verdict import Verdict
from highwater_core.events import TraceEvent

FOLDER = Path("tests/plans")

PLANS: Mapping[int, str] = {
    1: "follower_cuts_to_a_lagging_high_watermark",
    2: "bugs/an_empty_log_leads",
    3: "bugs/two_logs_of_the_same_offsets",
    5: "bugs/a_follower_that_keeps_what_its_leader_cut",
    6: "bugs/a_follower_that_misses_two_epochs",
    7: "bugs/a_joiner_that_lacks_what_is_committed",
    8: "bugs/an_empty_broker_joins_the_isr",
    9: "bugs/last_replica_standing",
    10: "slow_follower_then_the_leader_dies",
    12: "bugs/a_log_in_range_is_wiped",
    14: "bugs/an_isr_write_whose_reply_is_lost",
    15: "bugs/a_restart_that_no_controller_saw",
    17: "bugs/a_move_given_up_leaves_a_replica",
    18: "bugs/commands_before_it_is_known_who_lives",
    19: "bugs/a_replica_moved_away_is_taken_back",
    20: "bugs/a_controller_waits_for_itself",
    22: "bugs/a_load_that_ends_after_the_lead",
    24: "bugs/an_old_log_in_a_new_topic",
    26: "bugs/a_log_that_goes_on_behind_a_torn_batch",
    27: "bugs/an_epoch_that_recovery_leaves_out",
    38: "bugs/a_log_taken_for_committed",
}
"""The plan that shows a row on containers, by its number."""

_AT_THE_END = "runs on containers are judged for progress at their end"

WHY_NOT: Mapping[int, str] = {
    4: "records are lost only if the leader has written nothing when its follower asks: a plan's "
    "producers write again within milliseconds; no file tells a leader's cache of epochs",
    11: "no file tells it: the checkpoint is whole again once the replica has a role",
    13: "no file tells it: the next controller mends what the deposed one wrote",
    16: "the first copy of a command must be late and the second in time; a link delays both, and "
    "a fail-point also what follows in the broker's order",
    21: f"{_AT_THE_END}: the high watermark rises once the follower is back",
    23: "no history tells which leader answered with an offset, and a deposed one may lag",
    25: "the answer to a fetch is read from the disk and sent within a millisecond",
    28: "no rule of a network tells ZooKeeper's reply from a ping (lose_zookeeper_reply)",
    29: "its broker must not open a log, stop, and lose its power before it starts again: a plan's "
    "power_loss needs a broker that runs",
    30: "no file tells it: followers start over where the leader's log begins, and nothing "
    "acknowledged is lost",
    39: "the judge parts a topic's lives by its deletion: leaders of two lives are no violation",
}
"""Why no plan shows a row on containers, though one does in virtual time."""


class NotInContainers(HarnessError):
    """No plan shows the row on containers."""


def plan_of(bug: Bug) -> Plan:
    """Return the plan that shows the bug on containers.

    Raises:
        NotInContainers: there is none; the message says why.
    """
    name = PLANS.get(bug.row.number)
    if name is None:
        why = WHY_NOT.get(bug.row.number)
        raise NotInContainers(
            f"{bug.name} (row {bug.row.number}) has no plan for containers: {why}"
            if why
            else bug.why_no_plan()
        )
    return read_plan(project_root() / FOLDER / f"{name}.json")


def evidence_of(row: Row, verdict: Verdict, folder: Path) -> str:
    """Return how a run on containers shows the row's bug, in one sentence; "" if it does not.

    folder: the run's. The row's trigger must be in its traces, and the bug must have done its harm:
    the judge found a violation of an invariant that the row breaks, or, where it costs progress,
    the cluster did not come to rest although all else went as planned.
    """
    how = _trigger_in(row, _until_the_end(folder))
    if not how:
        return ""
    broken = sorted({finding.invariant for finding in verdict.findings} & {*row.invariants})
    if broken:
        return f"{', '.join(broken)} violated: {how}"
    if _stands_still(verdict) and any(map(_costs_progress, row.invariants)):
        return f"the cluster did not come to rest: {how}"
    return ""


def _costs_progress(invariant: str) -> bool:
    """A left-over replica (I13) keeps a cluster from its rest as well: its brokers never agree."""
    return invariant.startswith("L") or invariant == "I13"


def _until_the_end(folder: Path) -> list[TraceEvent]:
    """Return the events before the final look, in order: later ones are of the nodes' stops."""
    end_ns = end_of_run(folder, FINAL_LOOK.read(folder))
    events = (event for event in read_traces(folder / names.TRACE) if event.ts_ns <= end_ns)
    return sorted(events, key=lambda event: event.ts_ns)


def _trigger_in(row: Row, trace: Sequence[TraceEvent]) -> str:
    if row.trigger is None:
        return ""
    places = {
        (event.topic, event.partition)
        for event in trace
        if event.topic is not None and event.partition is not None
    }
    found = (row.trigger(trace, topic, partition, -1) for topic, partition in sorted(places))
    return next((each for each in found if each), "")


def _stands_still(verdict: Verdict) -> bool:
    unmet = [each.name for each in verdict.requirements if not each.met]
    return PLAYED_TO_ITS_END in unmet and all(map(is_of_progress, unmet))
