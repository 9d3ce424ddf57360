"""Files of one JSON object a line, as their writers leave them, also when killed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

T = TypeVar("T")


def decode_lines(decoder: msgspec.json.Decoder[T], lines: Iterable[bytes]) -> list[T]:
    """Return what the complete lines hold; a torn last line of a killed writer is left out.

    Raises:
        msgspec.DecodeError: a line before the last is malformed.
    """
    pending = [line for line in lines if line.strip()]
    found: list[T] = []
    for index, line in enumerate(pending):
        try:
            found.append(decoder.decode(line))
        except msgspec.DecodeError:
            if index + 1 < len(pending):
                raise
    return found
