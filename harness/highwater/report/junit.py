"""JUnit's XML, for a CI's list of tests: of a run a case for each check and requirement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree as ET

from highwater_checker.finding import CheckResult
from highwater_checker.verdict import Verdict

JUNIT = "junit.xml"
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that no XML document may have. Source: XML 1.0, "Char"."""


class Ended(StrEnum):
    """How a case ended that did not pass: also the name of its element."""

    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """A test case.

    ended: None where it passed. message, lines: why it did not. took_s: None where nobody asks.
    """

    classname: str
    name: str
    ended: Ended | None = None
    message: str = ""
    lines: tuple[str, ...] = ()
    took_s: float | None = None


def encode_suite(name: str, cases: Iterable[Case]) -> bytes:
    """Return the suite's XML; characters that no XML may have are replaced."""
    suite = ET.Element("testsuite", name=_in_xml(name))
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", classname=_in_xml(case.classname), name=_in_xml(case.name)
        )
        if case.took_s is not None:
            element.set("time", f"{case.took_s:.3f}")
        if case.ended is not None:
            why = ET.SubElement(element, case.ended.value, message=_in_xml(case.message))
            why.text = _in_xml("\n".join(case.lines)) or None
    suite.set("tests", str(len(suite)))
    for counted, ended in (("failures", Ended.FAILURE), ("errors", Ended.ERROR)):
        suite.set(counted, str(len(suite.findall(f"testcase/{ended.value}"))))
    suite.set("skipped", str(len(suite.findall(f"testcase/{Ended.SKIPPED.value}"))))
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))


def junit_xml(run_id: str, verdict: Verdict) -> bytes:
    """Return one test case a check and a requirement.

    Checks that are vacuous or could not read all, and unmet requirements, are errors.
    """
    return encode_suite(f"highwater {run_id}", _cases_of(verdict))


def _cases_of(verdict: Verdict) -> Iterator[Case]:
    for check in verdict.checks:
        if check.findings:
            message = str(check.findings[0])
            yield Case("checks", check.check, Ended.FAILURE, message, tuple(_lines_of(check)))
        elif check.unread:
            yield Case("checks", check.check, Ended.ERROR, check.unread[0], check.unread)
        elif check.examined == 0:
            yield Case("checks", check.check, Ended.ERROR, "nothing to examine")
        else:
            yield Case("checks", check.check)
    for requirement in verdict.requirements:
        ended = None if requirement.met else Ended.ERROR
        message = "" if requirement.met else requirement.evidence
        yield Case("requirements", requirement.name, ended, message)


def _lines_of(check: CheckResult) -> Iterator[str]:
    """Yield each finding, followed by the records about its offset."""
    for finding in check.findings:
        yield str(finding)
        yield from finding.around


def _in_xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
