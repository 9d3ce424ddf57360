"""One file of JSON lines, read line by line in bounded memory: a line is decoded, or wrong.

Python reads the lines, not Spark's JSON source: that gives no line numbers, turns a field of a
wrong type into null, and knows neither the enumerations nor which fields are required. The
decoders are those by which highwater_checker reads the same files. One task reads one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from highwater_checker.run_folder.files import open_regular

LINE_BYTES_MAX = 8 * 1024 * 1024
TEXT_CHARACTERS = 200
TORN = "torn: its writer did not finish it"
TOO_LONG = f"too long: over {LINE_BYTES_MAX} bytes"

_UTF8_BYTES_MAX = 4
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its line end. number: from 0. is_ended: whether it has a line end."""

    number: int
    data: bytes
    is_ended: bool

    def wrong(self, reason: str) -> Wrong:
        """Return it as a wrong line, with its first characters."""
        begin = self.data[: TEXT_CHARACTERS * _UTF8_BYTES_MAX]
        return Wrong(self.number, reason, begin.decode("utf-8", "replace")[:TEXT_CHARACTERS])


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded line. is_last: no later line of the file is decoded."""

    line: Line
    value: Any
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Wrong:
    """A line that was not decoded, and why. line: from 0; -1 for a whole file, without text."""

    line: int
    reason: str
    text: str | None


def read_lines(path: Path) -> Iterator[Line]:
    """Yield every line but blank ones, which are numbered all the same.

    At most LINE_BYTES_MAX bytes of a line, and one more, are read into memory.

    Raises:
        OSError: the file cannot be read, or is no regular one.
    """
    with open_regular(path) as file:
        number = 0
        while data := file.readline(LINE_BYTES_MAX + 1):
            rest = data
            while len(data) > LINE_BYTES_MAX and rest and not rest.endswith(b"\n"):
                rest = file.readline(LINE_BYTES_MAX)
            line = Line(number, data.removesuffix(b"\n"), is_ended=rest.endswith(b"\n"))
            if line.data.strip():
                yield line
            number += 1


def decode_lines(
    lines: Iterator[Line], decode: Callable[[bytes], Any]
) -> Iterator[Decoded | Wrong]:
    """Yield each line as Decoded or Wrong; a decoded line may come after wrong ones behind it.

    decode: raises msgspec's errors for a line that is malformed.
    """
    held: Decoded | None = None
    for line in lines:
        found = _decode(line, decode)
        if isinstance(found, Wrong):
            yield found
            continue
        if held is not None:
            yield held
        held = found
    if held is not None:
        yield replace(held, is_last=True)


def _decode(line: Line, decode: Callable[[bytes], Any]) -> Decoded | Wrong:
    if len(line.data) > LINE_BYTES_MAX:
        return line.wrong(TOO_LONG)
    try:
        return Decoded(line, decode(line.data))
    except _UNREADABLE as error:
        if _is_json(line.data):
            return line.wrong(f"wrong: {error}")
        return line.wrong(f"not JSON: {error}" if line.is_ended else TORN)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except _UNREADABLE:
        return False
    return True
