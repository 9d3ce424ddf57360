"""What all of a plan's faults have in common."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class FaultBase(msgspec.Struct, frozen=True, tag_field="fault", forbid_unknown_fields=True):
    """Common to all: how JSON tells faults apart.

    phrase: what the fault does, in words with its fields in braces.
    lasting: how the words go on where for_ms is set.
    """

    phrase: ClassVar[str]
    lasting: ClassVar[str] = " for {for_ms} ms"
