"""The JSON schema of plans, from their types: for editors and other programs."""

from __future__ import annotations

import msgspec

from highwater_chaos.plan import Plan

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def plan_schema() -> bytes:
    """Return the schema as indented JSON, always the same bytes.

    It has every field, its type and default, and all names of enumerations. problems_of checks
    further rules for numbers and names.
    """
    text = msgspec.json.encode({"$schema": DIALECT, **msgspec.json.schema(Plan)})
    return msgspec.json.format(text, indent=2) + b"\n"
