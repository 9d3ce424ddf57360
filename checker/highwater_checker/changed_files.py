"""Which findings rest on files that are not as the run wrote them. No I/O.

A copy may lose or tear any file. What such a file shows may never have happened, so that a finding
that rests on it is told among what could not be examined, and fails no run.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    CLOCK,
    EXCUSED,
    PROMISES,
    SLICE,
    TOPOLOGY,
    WATCHED,
)
from highwater_checker.run_folder.histories import process_of

_OF_EVERY_FINDING = (PROMISES.name, EXCUSED.name, TOPOLOGY.name)
"""What was promised, what may be lost, and which nodes there are."""
_OF_EVENTS = (CLOCK.name, SLICE.name)
"""They place the traces' events in the run."""


def without_unfounded(
    result: CheckResult, changed: Collection[str], *, is_of_logs: bool
) -> CheckResult:
    """Return the result with the findings that rest on changed files among what is unread.

    changed: the paths in the run's folder of files that are not as they were written.
    is_of_logs: whether the check looks at replicas' logs and the final look alone: the events say
    what became of a topic, on which all other checks rest.
    """
    kept: list[Finding] = []
    unfounded: list[str] = []
    for finding in result.findings:
        file = next((each for each in changed if _rests_on(finding, each, is_of_logs)), None)
        if file is None:
            kept.append(finding)
        else:
            unfounded.append(f"{finding}: it rests on {file}")
    if not unfounded:
        return result
    return replace(result, findings=tuple(kept), unread=(*result.unread, *unfounded))


def watched_is_founded(changed: Collection[str]) -> bool:
    """Return whether the findings of checks during the run are as they were written."""
    return WATCHED.name not in changed


def _rests_on(finding: Finding, file: str, is_of_logs: bool) -> bool:
    if file in _OF_EVERY_FINDING:
        return True
    if file in _OF_EVENTS or file.startswith(f"{names.TRACE}/"):
        return not is_of_logs
    process = process_of(file)
    if process is None:
        return False
    told = f"{finding.operation} {finding.message}"
    return re.search(rf"(?<![\w.]){re.escape(process)}'s ", told) is not None
