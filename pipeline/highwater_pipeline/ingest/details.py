"""What checks read of an event's detail, decoded once: a detail is a JSON object of any content."""

from __future__ import annotations

from collections.abc import Mapping
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
    return {
        name: detail[name] if _is_of(detail.get(name), kind) else None
        for name, kind in DETAILS.items()
    }


def _is_of(value: object, kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return isinstance(value, list) and all(_is_of(each, kind.elementType) for each in value)
    if isinstance(kind, StringType):
        return isinstance(value, str)
    # type(): JSON's true is no number.
    return type(value) is int and -BOUNDS[kind] <= value < BOUNDS[kind]
