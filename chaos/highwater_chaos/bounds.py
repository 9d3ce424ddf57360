"""The bounds of a plan's numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Bounds = tuple[int, int | None]
"""The least and the greatest value; None: no bound."""


def out_of(value: int, bounds: Bounds) -> str:
    """Return a text if the value is out of its bounds, else ""."""
    least, most = bounds
    if most is None:
        return "" if least <= value else f"{value} is not at least {least}"
    return "" if least <= value <= most else f"{value} is not from {least} to {most}"


def problems_of_numbers(owner: object, bounds: Mapping[str, Bounds]) -> Iterator[str]:
    """Yield a text for each field that is out of bounds; missing ones and None are not."""
    for field, own in bounds.items():
        value = getattr(owner, field, None)
        if value is not None and (words := out_of(value, own)):
            yield f"{field}: {words}"
