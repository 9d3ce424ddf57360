"""What checks read of an event's detail, decoded once: a detail is a JSON object of any content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StringType

from highwater_pipeline.ingest.decoding import Row
from highwater_pipeline.tables import DETAILS

BOUNDS: Mapping[DataType, int] = {IntegerType(): 2**31, LongType(): 2**63}
"""A column of whole numbers holds [-bound, bound)."""


def typed_details(detail: Mapping[str, Any]) -> Row:
    """Return DETAILS of it; None where it has no such value, of this type and within its range.

    A list with anything in it that is not of its type is none. Nodes write no such detail; where a
    check needs it, C00 says that it is not there.
    """
    return {name: detail[name] if fits(detail.get(name)) else None for name, fits in _FITS.items()}


def _fits(kind: DataType) -> Callable[[object], bool]:
    """Return what tells whether a value is of the type: every event is asked."""
    if isinstance(kind, ArrayType):
        is_element = _fits(kind.elementType)
        return lambda value: isinstance(value, list) and all(map(is_element, value))
    if isinstance(kind, StringType):
        return lambda value: isinstance(value, str)
    bound = BOUNDS[kind]
    # type(): JSON's true is no number.
    return lambda value: type(value) is int and -bound <= value < bound


_FITS = {name: _fits(kind) for name, kind in DETAILS.items()}
