"""What a run of a plan in this folder must have shown, in whichever world it was run.

Beside the verdict: that the situation came about which the plan is made for. A plan whose
situation did not come about shows nothing, however green it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from highwater.runs.plans.outcome import PlanResult
from highwater_chaos.plan import Expected, Plan
from highwater_checker.run_folder.lines import read_traces
from highwater_checker.verdict import Requirement
from highwater_core.events import EventKind as Kind
from highwater_core.events import TraceEvent

PLANS = sorted(Path(__file__).parent.glob("*.json"))

Trace = Sequence[TraceEvent]
"""Of all nodes, by time: the nodes of either world go by one clock."""

SEEN_BEFORE = {"I3": "I16"}
"""The simulator stops at the first violation: a leader counts a log that differs as copied, and
then the logs are compared. Containers are judged at the end."""


def assert_shown(name: str, plan: Plan, result: PlanResult) -> None:
    """Fail unless the run showed what the plan expects, every step done, by its situation."""
    verdict, expected = result.verdict, plan.expected or Expected()
    told = f"{result.folder}: {verdict.reasons}"
    assert verdict.outcome.value == expected.verdict, told
    assert [each for each in verdict.requirements if not each.met and _counts(each, expected)] == []
    assert len(result.steps) == len(plan.steps)
    if expected.invariant:
        as_well = {expected.invariant, SEEN_BEFORE.get(expected.invariant, "")}
        shown = [finding for finding in verdict.findings if finding.invariant in as_well]
        assert shown, told
        assert set(expected.rows) <= {row for finding in shown for row in finding.rows}, told
    trace = sorted(read_traces(result.folder / "trace"), key=lambda event: event.ts_ns)
    assert SITUATIONS[name](trace), f"{result.folder}: its situation is not in the trace"


def _counts(requirement: Requirement, expected: Expected) -> bool:
    """Every step counts; whether a cluster comes to rest after them, only where it must pass."""
    return expected.verdict == "pass" or requirement.name.startswith("done: ")


# ---------------------------------------------------------------- situations


def _of(trace: Trace, *kinds: Kind) -> Iterator[TraceEvent]:
    return (event for event in trace if event.kind in kinds)


def _leaders(trace: Trace) -> list[int]:
    """Return who led, one after the other."""
    return [event.node for event in _of(trace, Kind.BECAME_LEADER)]


def _a_tail_was_the_leaders_alone(trace: Trace) -> bool:
    """The first leader appended beyond what it ever committed, and another was elected after it."""
    first = _leaders(trace)[0]
    own = [event for event in trace if event.node == first and event.incarnation == 1]
    appended = max(event.detail["end_offset"] for event in _of(own, Kind.LOG_APPENDED))
    committed = max(event.offset or 0 for event in _of(own, Kind.HIGH_WATERMARK_ADVANCED))
    decided = {event.detail["leader"] for event in _of(trace, Kind.LEADERSHIP_DECIDED)}
    return committed < appended and bool(decided - {first})


def _the_tail_was_cut_off(trace: Trace) -> bool:
    first = _leaders(trace)[0]
    cuts = _of(trace, Kind.LOG_TRUNCATED)
    is_cut = any(
        cut.node == first and cut.incarnation == 2 and cut.detail["from_offset"] > (cut.offset or 0)
        for cut in cuts
    )
    return is_cut and _a_tail_was_the_leaders_alone(trace)


def _a_follower_cut_to_its_high_watermark(trace: Trace) -> bool:
    """It came back while no controller looked, and its log went beyond its high watermark."""
    return any(
        cut.incarnation == 2
        and cut.detail["reason"] == "to the high watermark"
        and cut.detail["from_offset"] > cut.detail["high_watermark"]
        for cut in _of(trace, Kind.LOG_TRUNCATED)
    )


def _an_unclean_election(trace: Trace) -> bool:
    """The leader was alone in the ISR, and another was elected."""
    alone = [e.node for e in _of(trace, Kind.ISR_CHANGED) if tuple(e.detail["isr"]) == (e.node,)]
    elected = [e.detail["leader"] for e in _of(trace, Kind.LEADERSHIP_DECIDED)]
    return bool(alone) and bool(set(elected) - {alone[0]})


def _a_deposed_controller_was_refused(trace: Trace) -> bool:
    """Its command was sent once the next controller was elected, and a broker refused it."""
    elected = list(_of(trace, Kind.CONTROLLER_ELECTED))
    assert len(elected) > 1, "no other controller was elected"
    late = [
        event
        for event in _of(trace, Kind.COMMAND_SENT)
        if event.node == elected[0].node and event.ts_ns > elected[1].ts_ns
    ]
    refused = [e.detail["error"] for e in _of(trace, Kind.REQUEST_REFUSED)]
    return bool(late) and "STALE_CONTROLLER_EPOCH" in refused


def _back_before_it_was_missed(trace: Trace) -> bool:
    """The leader's next incarnation ran before the controller heard that the first was gone."""
    back = next(event for event in _of(trace, Kind.NODE_STARTED) if event.incarnation == 2)
    missed = next(e for e in _of(trace, Kind.BROKERS_CHANGED) if back.node in e.detail["dead"])
    registered = [
        event
        for event in _of(trace, Kind.BROKER_REGISTERED)
        if event.node == back.node and event.incarnation == 2
    ]
    return back.ts_ns < missed.ts_ns < registered[0].ts_ns and _leaders(trace)[0] == back.node


def _the_last_in_sync_led_again(trace: Trace) -> bool:
    """The only ISR member committed alone and died; the others were back before it and waited."""
    last = _leaders(trace)[0]
    is_alone = any(
        tuple(event.detail["isr"]) == (last,) for event in _of(trace, Kind.HIGH_WATERMARK_ADVANCED)
    )
    starts = [event.node for event in _of(trace, Kind.NODE_STARTED) if event.incarnation == 2]
    return is_alone and len(starts) == 3 and starts[-1] == last and _leaders(trace)[1] == last


def _a_leader_without_zookeeper_went_on(trace: Trace) -> bool:
    """It appended in its epoch after another had begun to lead the next."""
    first = _leaders(trace)[0]
    next_led = next(event for event in _of(trace, Kind.BECAME_LEADER) if event.node != first)
    appended = [event for event in _of(trace, Kind.LOG_APPENDED) if event.node == first]
    lost = [event for event in _of(trace, Kind.SESSION_LOST) if event.node == first]
    return bool(lost) and any(
        event.ts_ns > next_led.ts_ns and (event.leader_epoch or 0) < (next_led.leader_epoch or 0)
        for event in appended
    )


def _the_failed_folders_broker_was_left_and_came_back(trace: Trace) -> bool:
    """The controller heard of it while the broker ran, another led, and it joined the ISR again."""
    (failed,) = _of(trace, Kind.LOG_FOLDER_FAILED)
    (heard,) = _of(trace, Kind.REPLICAS_FAILED)
    back = [
        event
        for event in _of(trace, Kind.ISR_CHANGED)
        if event.ts_ns > heard.ts_ns and failed.node in event.detail["isr"]
    ]
    leaders = _leaders(trace)
    is_left = heard.detail["broker"] == failed.node == leaders[0] != leaders[1]
    return is_left and bool(back)


SITUATIONS: dict[str, Callable[[Trace], bool]] = {
    "leader_killed_with_an_unreplicated_tail": _the_tail_was_cut_off,
    "slow_follower_then_the_leader_dies": _an_unclean_election,
    "deposed_controller_still_sends": _a_deposed_controller_was_refused,
    "bounce_within_the_session": _back_before_it_was_missed,
    "isr_of_one_then_the_others_restart": _the_last_in_sync_led_again,
    "leader_cut_off_from_zookeeper": _a_leader_without_zookeeper_went_on,
    "follower_cuts_to_a_lagging_high_watermark": _a_follower_cut_to_its_high_watermark,
    "an_election_in_the_old_epoch": _a_tail_was_the_leaders_alone,
    "a_new_follower_cuts_nothing": _a_tail_was_the_leaders_alone,
    "leaders_log_folder_fails": _the_failed_folders_broker_was_left_and_came_back,
    "a_new_follower_cuts_too_much": _a_tail_was_the_leaders_alone,
}
"""What each plan is made for, as a trace tells it."""
