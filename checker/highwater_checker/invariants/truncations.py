"""I11: no replica truncates its log below its own high watermark, by the traces."""

from __future__ import annotations

from collections.abc import Iterable

from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent

CHECK = "no log is cut below its high watermark (I11)"


def check_truncations(events: Iterable[TraceEvent]) -> CheckResult:
    """Find truncations to an offset below the high watermark that the replica had then.

    Examines BECAME_FOLLOWER, after which a replica may have to truncate, and LOG_TRUNCATED. Records
    that preset v3 loses by its known flaws are found too, as are unclean elections.
    Source: docs/reference/invariants.md, I11.
    """
    findings: list[Finding] = []
    examined = 0
    for event in events:
        examined += event.kind in (EventKind.BECAME_FOLLOWER, EventKind.LOG_TRUNCATED)
        if event.kind is not EventKind.LOG_TRUNCATED or event.offset is None:
            continue
        high_watermark = int(event.detail["high_watermark"])
        if event.offset < high_watermark:
            findings.append(
                Finding(
                    "I11",
                    Wording.CUT_BELOW_HIGH_WATERMARK.filled(
                        node=event.node,
                        offset=event.offset,
                        high_watermark=high_watermark,
                        reason=event.detail["reason"],
                    ),
                    event.topic or "",
                    -1 if event.partition is None else event.partition,
                    event.offset,
                    traced=(Traced.of(event),),
                )
            )
    return CheckResult(CHECK, examined, tuple(findings))
