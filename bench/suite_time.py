"""The time of a run of tests, by pytest's JUnit file. Pure except for reading the file."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SuiteTime:
    """wall_s: from the first test to the last, on all workers; files: their tests' seconds, the
    longest first."""

    wall_s: float
    tests: int
    files: tuple[tuple[str, float], ...]


def read_suite_time(path: Path) -> SuiteTime:
    """Return the times in the file.

    Raises:
        ValueError: it is no JUnit file of pytest's.
    """
    return suite_time_of(path.read_text(encoding="utf-8"))


def suite_time_of(text: str) -> SuiteTime:
    """Return the times in a JUnit file's text.

    Raises:
        ValueError: it is no JUnit file of pytest's.
    """
    try:
        suite = Xml.fromstring(text).find("testsuite")  # noqa: S314
    except Xml.ParseError as error:
        raise ValueError(f"no JUnit file: {error}") from error
    if suite is None or "time" not in suite.attrib:
        raise ValueError("no JUnit file: it has no test suite with a time")
    files: dict[str, float] = {}
    cases = suite.findall("testcase")
    for case in cases:
        name = case.attrib["classname"].removeprefix("tests.")
        files[name] = files.get(name, 0.0) + float(case.attrib["time"])
    longest_first = sorted(files.items(), key=lambda each: -each[1])
    return SuiteTime(float(suite.attrib["time"]), len(cases), tuple(longest_first))
