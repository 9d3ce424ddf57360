"""Adds catalogue rows to findings of presets that do not promise all invariants. No I/O.

As in the simulator's search: a finding stays as it is if every preset of its nodes promises the
invariant, and one that no row explains has no excuse.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from highwater_checker.catalogue.explain import explain
from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_core.config import MayBreak, Preset
from highwater_core.events import TraceEvent
from highwater_core.mixing import promised_by_all

NAMED_OF_EACH = 3
"""Findings of an invariant in a partition that get rows: records lost together have one cause."""


def name_findings(
    checks: Sequence[CheckResult],
    traces: Iterable[TraceEvent],
    presets: Collection[Preset],
    end_ns: float = math.inf,
) -> list[CheckResult]:
    """Return the checks, with the rows that explain their findings in words and as numbers.

    presets: of the run's nodes, one in most runs.
    traces: of all nodes, each node's in its order. Their clocks must be one, as on containers of
    one machine. end_ns: when the run ended, by that clock; later events are of the nodes' stops,
    and explain nothing but a finding that such events show.
    """
    promises = promised_by_all(presets)
    if not any(promise.rows for promise in promises.values()):
        return list(checks)
    trace = sorted(traces, key=_at_ns)
    to_the_end = trace[: bisect_right(trace, end_ns, key=_at_ns)]
    seen: Counter[tuple[str, str, int]] = Counter()

    def named(finding: Finding) -> Finding:
        kind = kind_of(finding)
        seen[kind] += 1
        if seen[kind] > NAMED_OF_EACH:
            return finding
        return _named(finding, _until(finding, trace) or to_the_end, promises)

    return [replace(check, findings=tuple(map(named, check.findings))) for check in checks]


def kind_of(finding: Finding) -> tuple[str, str, int]:
    """Return the invariant and the partition of which the first findings get rows."""
    return finding.invariant, finding.topic, finding.partition


def _named(
    finding: Finding, trace: Sequence[TraceEvent], promises: Mapping[str, MayBreak]
) -> Finding:
    explanations = explain(
        finding.invariant,
        finding.topic,
        finding.partition,
        finding.offset,
        trace,
        promises,
    )
    if not explanations:
        return finding
    return replace(
        finding,
        rows=tuple(each.row for each in explanations),
        ids=tuple(name for each in explanations for name in each.ids),
        cause="; ".join(each.evidence for each in explanations),
    )


def _until(finding: Finding, trace: Sequence[TraceEvent]) -> Sequence[TraceEvent]:
    """Return the trace up to the last event that shows the finding, nothing where none does."""
    shown = [place for place, event in enumerate(trace) if Traced.of(event) in finding.traced]
    return trace[: shown[-1] + 1] if shown else ()


def _at_ns(event: TraceEvent) -> int:
    return event.ts_ns
