"""Makes a scenario of a plan: a plan file with the result that every commit's run must have."""

from __future__ import annotations

from msgspec.structs import replace

from highwater.errors import HarnessError
from highwater.runs.plans.replaying import replay
from highwater.search.judging import expected_of, steps_of
from highwater_chaos.plan import Expected, Plan
from highwater_chaos.words import say_step
from highwater_checker.verdict import Outcome


class NotAScenario(HarnessError):
    """A plan cannot be a scenario file; the message says why."""


def make_scenario(plan: Plan, title: str = "", bug: str = "") -> Plan:
    """Run the plan, and return it with its result as the expected one.

    The plan's least numbers of acknowledgements and takeovers, and the title of its run with every
    fix, stay as they are.

    bug: the planted bug; "" is the one that the plan itself names, or none.

    Raises:
        NoSuchBug, PlantsNothing: the plan's nodes cannot have the planted bug.
        NotAScenario: a step was not done, or the run proves nothing.
    """
    replayed = replay(plan, bug)
    idle = [say_step(step) for step, is_done, _ in steps_of(replayed.result) if not is_done]
    if idle:
        raise NotAScenario(f"a scenario's steps must all be done; not done: {'; '.join(idle)}")
    if replayed.verdict.outcome is Outcome.UNKNOWN:
        raise NotAScenario(f"its run proves nothing: {'; '.join(replayed.verdict.reasons)}")
    asked = plan.expected or Expected()
    expected = replace(
        expected_of(replayed.found, replayed.bug),
        least_acknowledged=asked.least_acknowledged,
        least_takeovers=asked.least_takeovers,
        with_every_fix=asked.with_every_fix,
    )
    return replace(plan, title=title or plan.title, commit="", expected=expected)
