"""The fields of an event's detail that checks read, decoded once; a detail is any JSON object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import ArrayType, BooleanType, DataType, IntegerType, LongType, StringType

from highwater_pipeline.ingest.decoding import Row
from highwater_pipeline.tables import DETAILS

BOUNDS: Mapping[DataType, int] = {IntegerType(): 2**31, LongType(): 2**63}
"""A column of whole numbers holds [-bound, bound)."""


def typed_details(detail: Mapping[str, Any]) -> Row:
    """Return the values of DETAILS; None for a value that is missing, of another type or too large.

    A list with one element of another type is None. Nodes write no such detail; if a check needs
    the value, C00 reports it as missing.
    """
    return {name: detail[name] if fits(detail.get(name)) else None for name, fits in _FITS.items()}


def _fits(kind: DataType) -> Callable[[object], bool]:
    """Return a test for values of the type; made once, since every event is tested."""
    if isinstance(kind, ArrayType):
        is_element = _fits(kind.elementType)
        return lambda value: isinstance(value, list) and all(map(is_element, value))
    if isinstance(kind, StringType):
        return lambda value: isinstance(value, str)
    if isinstance(kind, BooleanType):
        return lambda value: isinstance(value, bool)
    bound = BOUNDS[kind]
    # type(): JSON's true is no number.
    return lambda value: type(value) is int and -bound <= value < bound


_FITS = {name: _fits(kind) for name, kind in DETAILS.items()}
