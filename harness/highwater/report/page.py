"""Writes a run's report.html and junit.xml from its verdict."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from jinja2 import Environment, PackageLoader

from highwater.report.alerts import alerts_of
from highwater.report.failover import Gap
from highwater.report.picture import Fault
from highwater.run_folder import RunFolder
from highwater_checker.run_folder.evidence import Evidence
from highwater_checker.verdict import Verdict


def write_report(
    folder: RunFolder,
    verdict: Verdict,
    gaps: Sequence[Gap],
    faults: Sequence[Fault],
    evidence: Evidence,
) -> None:
    """Write both files; the page contains the picture, when there is one."""
    picture = folder.path / "run.png"
    environment = Environment(loader=PackageLoader("highwater.report"), autoescape=True)
    page = environment.get_template("report.html.j2").render(
        run_id=folder.run_id,
        verdict=verdict,
        gaps=gaps,
        faults=faults,
        sends=evidence.sends,
        replicas=evidence.logs.by_partition,
        alerts=alerts_of(evidence.traces),
        picture=base64.b64encode(picture.read_bytes()).decode() if picture.exists() else "",
    )
    folder.write_bytes("report.html", page.encode())
    folder.write_bytes("junit.xml", junit_xml(folder.run_id, verdict))


def junit_xml(run_id: str, verdict: Verdict) -> bytes:
    """Return one test case a check and a requirement; vacuous and unmet ones are errors."""
    suite = ET.Element("testsuite", name=f"highwater {run_id}")
    for check in verdict.checks:
        case = ET.SubElement(suite, "testcase", classname="checks", name=check.check)
        if check.findings:
            failure = ET.SubElement(case, "failure", message=str(check.findings[0]))
            lines = (line for each in check.findings for line in (str(each), *each.around))
            failure.text = "\n".join(lines)
        elif check.examined == 0:
            ET.SubElement(case, "error", message="nothing to examine")
    for requirement in verdict.requirements:
        case = ET.SubElement(suite, "testcase", classname="requirements", name=requirement.name)
        if not requirement.met:
            ET.SubElement(case, "error", message=requirement.evidence)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))
