"""Shows a search's progress on stderr: a bar on a terminal, else a line every tenth."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

if TYPE_CHECKING:
    from highwater.search.pool import Lost
    from highwater.search.searching import Search
    from highwater_simulator.search import Kind, Summary

LINES = 10
"""Lines of progress where there is no terminal."""


class SearchProgress:
    """A search's progress; use it as a context manager."""

    def __init__(self, schedules: int, console: Console | None = None) -> None:
        self._schedules = schedules
        self._console = console or Console(stderr=True, highlight=False)
        self._bar = Progress(
            TextColumn("schedules"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("schedules", total=schedules, numbers="")
        self._said: set[Kind] = set()

    def __enter__(self) -> SearchProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, found: Search, outcome: Summary | Lost) -> None:
        """Show the numbers; print a line for a violation of a new kind and for a lost schedule."""
        totals = found.totals
        done = totals.schedules + len(found.lost)
        a_minute = 60 * totals.schedules / found.wall_s if found.wall_s else 0
        numbers = f"{a_minute:,.0f} a minute, {totals.failing} failing"
        documented = totals.kinds.total() - totals.failing
        if documented:
            numbers += f", {documented} documented"
        self._bar.update(self._task, completed=done, numbers=numbers)
        if not self._console.is_terminal and done % max(1, self._schedules // LINES) == 0:
            self._say(f"{done} of {self._schedules} schedules, {numbers}")
        if (violation := getattr(outcome, "found", None)) is not None:
            if violation.kind not in self._said:
                self._said.add(violation.kind)
                style = "yellow" if violation.is_documented else "red"
                self._say(f"{outcome.schedule}: {violation.violation}", style)
        elif (why := getattr(outcome, "why", None)) is not None:
            self._say(f"{outcome.schedule}: {why}", "yellow")

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)
