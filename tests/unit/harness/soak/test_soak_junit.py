"""A soak's plans, leaks and verdict as JUnit's cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from highwater.runs.stock.libraries import ClientKind
from highwater.soak.draws import SoakSettings
from highwater.soak.folder import SoakFolder
from highwater.soak.junit import soak_junit_xml
from highwater.soak.leaks import Judgement, Leaking
from highwater.soak.ledger import Entry
from highwater.soak.page import write_page
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset

PASSED = Entry(
    1, 5, Preset.FENCED, ClientKind.OWN, 3, 2, 9, Outcome.PASS, "run-1", "", took_s=40.0, load=1.0
)
FAILED = msgspec.structs.replace(
    PASSED,
    number=2,
    outcome=Outcome.FAIL,
    run="run-2",
    reasons=("I1: t-0, offset 3: 'a' was acknowledged", "I3: t-0"),
)
UNKNOWN = msgspec.structs.replace(
    PASSED, number=3, outcome=Outcome.UNKNOWN, run="", reasons=("done: kill broker-0: it was not",)
)
LEAK = Judgement("broker", None, "open_files", Leaking.LEAK, per_round=2.0, rounds=9, growth=18.0)


def read(encoded: bytes) -> ET.Element:
    return ET.fromstring(encoded)  # noqa: S314 - our own bytes


def counts_in(suite: ET.Element) -> list[str | None]:
    return [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]


def test_each_plan_is_a_case_and_a_finding_says_how_it_is_seen_again(tmp_path: Path) -> None:
    folder = SoakFolder(tmp_path / "soak-7")
    suite = read(soak_junit_xml(folder, [PASSED, FAILED, UNKNOWN], (), Outcome.FAIL))
    assert suite.get("name") == "highwater soak-7"
    assert counts_in(suite) == ["4", "1", "0", "1"]
    passed, failed, unknown, _ = suite
    assert (passed.get("time"), len(passed)) == ("40.000", 0)
    assert failed.get("name") == "plan 2, seed 5, fenced, own"
    assert failed[0].get("message") == FAILED.reasons[0]
    assert (failed[0].text or "").splitlines() == [
        *FAILED.reasons,
        f"run: {folder.runs / 'run-2'}",
        f"again: highwater run {folder.plan_path(2)} --world docker --client own",
    ]
    assert unknown[0].get("message") == UNKNOWN.reasons[0]
    assert "it left no run" in (unknown[0].text or "")


@pytest.mark.parametrize(
    ("leaks", "verdict", "expected"),
    [
        ((), Outcome.PASS, ["2", "0", "0", "0"]),
        ((), Outcome.UNKNOWN, ["2", "0", "1", "0"]),
        ((LEAK, replace(LEAK, kind="controller")), Outcome.FAIL, ["4", "2", "0", "0"]),
    ],
)
def test_a_leak_fails_and_a_soak_that_proves_too_little_is_an_error(
    tmp_path: Path, leaks: tuple[Judgement, ...], verdict: Outcome, expected: list[str]
) -> None:
    assert counts_in(read(soak_junit_xml(SoakFolder(tmp_path), [PASSED], leaks, verdict))) == (
        expected
    )


def test_it_is_beside_the_soaks_page(tmp_path: Path) -> None:
    folder = SoakFolder(tmp_path)
    settings = SoakSettings(seed=5)
    folder.open(settings)
    write_page(folder, settings, [PASSED, FAILED])
    assert counts_in(read(folder.junit.read_bytes())) == ["3", "1", "0", "0"]
