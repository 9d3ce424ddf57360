"""A bug's page for docs/reference/bugs: what it is, its two runs, and a diagram."""

from __future__ import annotations

from collections.abc import Iterator
from os.path import relpath

from highwater.bugs.in_containers import FOLDER as PLANS_FOLDER
from highwater.bugs.in_containers import PLANS, WHY_NOT
from highwater.bugs.kept import FOLDER, Bug, all_bugs
from highwater.bugs.told import BugTold, Told, say_steps
from highwater_checker.catalogue.rows import Row
from highwater_checker.stories.diagram import mermaid

FOLDER_OF_PAGES = "docs/reference/bugs"
_CATALOGUE = f"[the catalogue]({relpath('docs/reference/catalogue.md', FOLDER_OF_PAGES)})"
GENERATED = "<!-- Written by tests/scenarios/test_bug_pages.py --rewrite. -->"


def page_name(bug: Bug) -> str:
    return f"{bug.name}.md"


def page(told: BugTold) -> str:
    """Return the page, in Markdown."""
    row, name = told.bug.row, told.bug.scenario
    lines = [
        f"# {told.bug.name}: {row.title}",
        "",
        GENERATED,
        "",
        f"Row {row.number} of {_CATALOGUE}: {', '.join(map(_link, row.ids))}.",
        f"Affected: {row.affected}. Fixed in: {row.fixed_in}.",
        "",
        *_breaks(row),
        "",
        f"    highwater bugs show {told.bug.name}",
        "",
        f"runs the plan `{FOLDER}/{name}.json`,",
        "and then the same schedule with every fix.",
        *_in_containers(row),
        "",
        "## With the bug",
        "",
        *_with_the_bug(told.shown),
        "",
        "```mermaid",
        *mermaid(told.shown.story),
        "```",
        "",
        "## With every fix",
        "",
        *_run(told.mended),
    ]
    return "\n".join(lines) + "\n"


def index() -> str:
    """Return the page that lists the others."""
    lines = [
        "# Failover bugs as runs",
        "",
        GENERATED,
        "",
        f"Each row of {_CATALOGUE} that a plan shows has a page: the plan in",
        "words, the lines of its run that change a leader, an ISR or a log, and the same schedule",
        "with every fix. `highwater bugs show` runs them again.",
        "",
        "| row | bug | what happens |",
        "| --- | --- | --- |",
    ]
    for bug in all_bugs():
        name = f"[{bug.name}]({page_name(bug)})" if bug.scenario else bug.name
        missing = "" if bug.scenario else " (no plan yet)"
        lines.append(f"| {bug.row.number} | {name} | {bug.row.title}{missing} |")
    return "\n".join(lines) + "\n"


def _in_containers(row: Row) -> Iterator[str]:
    """Yield the row's plan on containers, or why there is none."""
    name = PLANS.get(row.number)
    if name is None:
        yield f"No plan shows it on containers: {WHY_NOT[row.number]}."
        return
    yield "With `--world docker` it runs a plan that has time for what takes longer there,"
    yield f"`{PLANS_FOLDER}/{name}.json`, and the same with every fix."


def _link(bug_id: str) -> str:
    if bug_id.startswith("KAFKA-"):
        return f"[{bug_id}](https://issues.apache.org/jira/browse/{bug_id})"
    return bug_id


def _breaks(row: Row) -> Iterator[str]:
    for invariant, how in row.breaks.items():
        yield f"- {invariant}: {how}"


def _with_the_bug(told: Told) -> Iterator[str]:
    """Yield the plan in words, then its run."""
    for line in say_steps(told.plan):
        yield f"- {line}"
    yield ""
    yield from _run(told)


def _run(told: Told) -> Iterator[str]:
    yield f"{told.plan.title.rstrip('.')}."
    yield f"Nodes: {told.means}."
    yield ""
    yield "```text"
    yield from told.story.lines()
    yield "```"
    yield ""
    for line in told.ending():
        yield f"{line[0].upper()}{line[1:]}."
