"""A bug's page for docs/reference/bugs: what it is, its two runs, and a diagram."""

from __future__ import annotations

from collections.abc import Iterator
from os.path import relpath

from highwater.bugs.fixes import changes_of
from highwater.bugs.in_containers import FOLDER as PLANS_FOLDER
from highwater.bugs.in_containers import PLANS, WHY_NOT
from highwater.bugs.kept import FOLDER, Bug, all_bugs
from highwater.bugs.told import BugTold, Told, say_steps
from highwater_chaos.plan import Plan
from highwater_chaos.words import say_value
from highwater_checker.catalogue.rows import Row
from highwater_checker.stories.diagram import mermaid
from highwater_core.config import Preset

FOLDER_OF_PAGES = "docs/reference/bugs"
_TOGGLES = f"{relpath('docs/reference/presets.md', FOLDER_OF_PAGES)}#toggles"
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
        "```",  # an indented block would belong to the list
        f"highwater bugs show {told.bug.name}",
        "```",
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
        *_difference(told.bug, told.shown.plan),
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
        lines.append(f"| {bug.row.number} | {name} | {bug.row.title}{_missing(bug)} |")
    return "\n".join(lines) + "\n"


def _missing(bug: Bug) -> str:
    """Return why the row has no page, "" where it has one."""
    if bug.scenario:
        return ""
    why = bug.row.why_not_here
    return f". *Does not apply here*: {why}" if why else " (no plan yet)"


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


def _difference(bug: Bug, plan: Plan) -> Iterator[str]:
    """Yield the toggles, or the planted mistake, that make the difference between the runs."""
    if plan.planted:
        yield f"The fix: no node has the planted mistake `{plan.planted}`."
        yield "The two runs differ in nothing else."
        return
    changes = changes_of(bug)
    yield f"The fix, in [toggles]({_TOGGLES}):"
    yield ""
    yield "| toggle | with the bug | with every fix |"
    yield "| --- | --- | --- |"
    for each in changes:
        before, after = say_value(each.before), say_value(each.after)
        yield f"| `{each.toggle}` | `{before}` | `{after}` |"
    yield ""
    if plan.topology.preset is Preset.FENCED:
        yield "The two runs differ in nothing else."
    else:
        these = "this value" if len(changes) == 1 else "these values"
        yield f"With {these} and all else of the first run the bug does not show either."


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
