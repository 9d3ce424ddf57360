"""The base of all of a plan's faults."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class FaultBase(msgspec.Struct, frozen=True, tag_field="fault", forbid_unknown_fields=True):
    """The base class; JSON has the kind in "fault".

    phrase: the fault in words, with its fields in braces.
    lasting: the rest of the words where for_ms is set.
    """

    phrase: ClassVar[str]
    lasting: ClassVar[str] = " for {for_ms} ms"
