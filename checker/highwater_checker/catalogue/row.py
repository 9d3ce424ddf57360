"""A row of the catalogue: one historical bug."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from highwater_checker.catalogue.story import Trigger


@dataclass(frozen=True, slots=True)
class Row:
    """One historical bug.

    breaks: for each invariant, how the bug violates it.
    in_a_trace: the events that its trigger looks for, or why it has none.
    planted: the planted mistakes that show it, where no preset has the bug.
    """

    number: int
    ids: tuple[str, ...]
    title: str
    affected: str
    fixed_in: str
    breaks: Mapping[str, str] = field(hash=False)
    in_a_trace: str
    trigger: Trigger | None = None
    planted: tuple[str, ...] = ()
    is_of_first_design: bool = False
    """Whether only brokers that elect leaders themselves have it."""

    @property
    def invariants(self) -> tuple[str, ...]:
        return tuple(self.breaks)

    @property
    def why_not_here(self) -> str:
        """Why no node here can have the bug; "" where a preset, toggles or mistakes bring it."""
        return "" if self.trigger or self.planted else self.in_a_trace.removeprefix("none: ")


def make_row(
    number: int,
    ids: tuple[str, ...],
    title: str,
    *,
    versions: tuple[str, str],
    breaks: dict[str, str],
    in_a_trace: str,
    trigger: Trigger | None = None,
    planted: tuple[str, ...] = (),
    is_of_first_design: bool = False,
) -> Row:
    """Return the row; versions are those affected and those that fixed it."""
    affected, fixed_in = versions
    what = MappingProxyType(breaks)
    return Row(
        number,
        ids,
        title,
        affected,
        fixed_in,
        what,
        in_a_trace,
        trigger,
        planted,
        is_of_first_design,
    )
