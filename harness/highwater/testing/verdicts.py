"""Verdicts on their way from the fixtures to pytest's report. Imports pytest alone."""

from __future__ import annotations

import os

import pytest

PROPERTY = "highwater"
"""The name of a verdict among a report's user properties, and so in junit.xml."""
_NOT_REPORTED = pytest.StashKey[list[str]]()
"""Verdicts that no test's report has yet."""
CORES_PER_WORKER = 2
AT_ONCE = "HIGHWATER_CLUSTERS_AT_ONCE"
"""The variable that says how many clusters may be up at once, of all workers together."""


def tell(config: pytest.Config, verdict: str) -> None:
    """Have the verdict in the next report of a test's teardown."""
    config.stash.setdefault(_NOT_REPORTED, []).append(verdict)


def take_told(config: pytest.Config) -> list[tuple[str, object]]:
    """Return the verdicts that were told and are in no report yet, as user properties."""
    told = config.stash.setdefault(_NOT_REPORTED, [])
    properties: list[tuple[str, object]] = [(PROPERTY, text) for text in told]
    told.clear()
    return properties


def name_here(node: pytest.Item | pytest.Collector) -> str:
    """Return the test's or the file's name as it is typed where pytest was called.

    Its node's own name is relative to pytest's root folder.
    """
    _, separator, inside = node.nodeid.partition("::")
    called_in = node.config.invocation_params.dir  # the test may be in another folder by now
    return os.path.relpath(node.path, called_in) + separator + inside


def write_summary(reporter: pytest.TerminalReporter, workers: int) -> None:
    """List all verdicts, also those of other workers, and say if the machine is too small.

    workers: of pytest-xdist, 0 without it.
    """
    reports = [each for group in reporter.stats.values() for each in group]
    verdicts = [
        text
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, text in report.user_properties
        if name == PROPERTY
    ]
    if not verdicts:
        return
    reporter.section("verdicts of clusters")
    for text in dict.fromkeys(verdicts):
        reporter.write_line(text)
    if crowded := say_crowded(workers, cores_of_engine(), os.environ.get(AT_ONCE, "")):
        reporter.write_line(crowded, yellow=True)


def say_crowded(workers: int, cores: int, at_once: str = "") -> str:
    """Return a sentence if so many workers with a cluster each are too many for the cores.

    cores: 0 if they are not known, as those of an engine elsewhere.
    at_once: how many clusters the user lets be up at once, "" if he says nothing.
    """
    most = max(1, cores // CORES_PER_WORKER)
    if not cores or workers <= most or at_once in map(str, range(1, most + 1)):
        return ""
    begin = f"{workers} workers on {cores} cores: a cluster wants {CORES_PER_WORKER}"
    if not at_once:
        return f"{begin}, so {most} at a time could be up; {AT_ONCE}={workers} allows more"
    return (
        f"{begin}, and one without processor time loses its ZooKeeper sessions; pytest -n {most} "
        "has enough"
    )


def cores_of_engine() -> int:
    """Return the cores of the engine's machine that this process may use, 0 if it is elsewhere."""
    if not os.environ.get("DOCKER_HOST", "unix:").startswith("unix:"):
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0
