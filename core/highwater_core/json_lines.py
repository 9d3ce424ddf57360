"""Files of one JSON object a line, also of killed writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class DamagedLines(Exception):
    """Lines that are not torn are malformed. found: the contents of the others."""

    def __init__(self, problems: list[str], found: list[Any]) -> None:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.found = found


def decode_lines(decode: Callable[[bytes], T], lines: Iterable[bytes]) -> list[T]:
    """Return the contents of complete lines; a torn last line of a killed writer is left out.

    Lines may have their newlines; a last line with one is not torn. decode raises msgspec's errors
    for a malformed line.

    Raises:
        DamagedLines: a line that is not torn is malformed.
    """
    pending = [line for line in lines if line.strip()]
    found: list[T] = []
    problems: list[str] = []
    for index, line in enumerate(pending):
        try:
            found.append(decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if index + 1 < len(pending) or line.endswith(b"\n"):
                problems.append(f"line {index + 1}: {error}")
    if problems:
        raise DamagedLines(problems, found)
    return found
