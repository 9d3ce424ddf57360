"""Code blocks of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of Python. line: of its file, from 1, where the code begins."""

    page: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_whole_test(self) -> bool:
        """Whether pytest can run it as it is: it has a test, and nothing is left to the reader."""
        return "\ndef test_" in self.code and "    ...\n" not in self.code


def python_blocks() -> Iterator[Block]:
    """Yield the blocks of README.md and of all pages, by page."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for found in _PYTHON.finditer(text):
            line = text.count("\n", 0, found.start(1)) + 1
            yield Block(str(path.relative_to(ROOT)), line, found[1])
