"""What a run's first files say of it, as far as its live checks need it."""

from __future__ import annotations

from pathlib import Path

from highwater_chaos.operator_work import DeleteTopic
from highwater_chaos.plan import BadPlan, Plan, decode_plan
from highwater_checker.run_folder.documents import ACKS_ALL, PLAN, PROMISES, TOPOLOGY, BadDocument
from highwater_pipeline.watching.live_checks import Known


def read_known(run: Path) -> Known | None:
    """Return what is known of the run; None while its files are not all there.

    A run of a plan has its plan, topology and promises before its clients begin. Another one, or
    one with damaged files, is judged at its end alone.
    """
    try:
        text, topology, promises = PLAN.read(run), TOPOLOGY.read(run), PROMISES.read(run)
        plan = None if text is None else decode_plan(bytes(text), PLAN.name)
    except (BadDocument, BadPlan):
        return Known()
    if plan is None or topology is None or promises is None:
        return None
    is_simulated = topology.session_timeout_ms is None
    return Known(
        has_histories=not is_simulated and not _deletes_topics(plan),
        weak=tuple(each.client for each in promises.producers if each.acks != ACKS_ALL),
        one_at_a_time=tuple(each.client for each in promises.producers if each.max_in_flight == 1),
        idempotent=tuple(each.client for each in promises.producers if each.is_idempotent),
    )


def _deletes_topics(plan: Plan) -> bool:
    return any(isinstance(step.do, DeleteTopic) for step in plan.steps)
