"""The least and the most that a plan's numbers may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Bounds = tuple[int, int | None]
"""The least and the most; None is without bound."""


def out_of(value: int, bounds: Bounds) -> str:
    """Return in words that the value is out of its bounds, "" when it is not."""
    least, most = bounds
    if most is None:
        return "" if least <= value else f"{value} is not at least {least}"
    return "" if least <= value <= most else f"{value} is not from {least} to {most}"


def problems_of_numbers(owner: object, bounds: Mapping[str, Bounds]) -> Iterator[str]:
    """Yield which of these fields are out of bounds; one that is missing, or None, is not."""
    for field, own in bounds.items():
        value = getattr(owner, field, None)
        if value is not None and (words := out_of(value, own)):
            yield f"{field}: {words}"
