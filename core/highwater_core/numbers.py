"""Whole numbers as wide as the protocols and Kafka's own types have them, for JSON that is read."""

from __future__ import annotations

from typing import Annotated

import msgspec

INT64_MAX = 2**63 - 1

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=INT64_MAX)]
