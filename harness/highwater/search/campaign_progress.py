"""The progress of a campaign on stderr, group by group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from highwater.output import PROGRESS, say
from highwater_pipeline.campaign.state import GroupReceipt, Settings

LINES = 10
"""Lines of progress where there is no terminal."""


@contextmanager
def progress_of(
    settings: Settings, done: Mapping[int, GroupReceipt], *, what: str = "schedules"
) -> Iterator[Callable[[GroupReceipt], None]]:
    """Show a bar on a terminal, else a line every tenth of the groups, while the block lasts.

    what: schedules or plans. It gives a function that is called with each new receipt.
    """
    kept = list(done.values())
    groups = len(settings.groups())
    with Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(),
        console=PROGRESS,
        transient=True,
        disable=not PROGRESS.is_terminal,
    ) as bar:
        task = bar.add_task(what, total=settings.schedules, numbers="")

        def show() -> None:
            schedules = sum(each.schedules for each in kept)
            failing = sum(each.failing for each in kept)
            wall_s = sum(each.wall_s for each in kept)
            a_minute = 60 * schedules / wall_s if wall_s else 0
            numbers = f"{a_minute:,.0f} a minute, {failing:,} failing"
            bar.update(task, completed=schedules, numbers=numbers)
            if not PROGRESS.is_terminal and len(kept) % max(1, groups // LINES) == 0:
                say(f"{schedules:,} of {settings.schedules:,} {what}, {numbers}")

        def heard(receipt: GroupReceipt) -> None:
            kept.append(receipt)
            show()

        if kept:
            show()
        yield heard
