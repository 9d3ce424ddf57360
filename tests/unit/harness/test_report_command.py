"""`highwater report`: a run's page from the files in its folder alone."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from highwater.bugs.kept import bug_of
from highwater.cli import make_app
from highwater.errors import HarnessError
from highwater.report.faults_in_run import FaultSpan, fault_spans
from highwater.report.page import PAGE
from highwater.report.screen import Screen
from highwater.run_folder import TEST, RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater.runs.reporting import PICTURE
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import BUILD, FINAL_LOOK, PLAN, REQUIREMENTS, VERDICT
from tests.support.run_on_disk import segment, write_run

WRITTEN = (PAGE, PICTURE, "junit.xml")


@pytest.fixture(scope="module")
def concluded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A failed simulated run with the page that it wrote itself."""
    folder = tmp_path_factory.mktemp("runs") / "lost"
    run_in_simulator(bug_of("KAFKA-3410").plan(), RunFolder(folder), Screen(Console(quiet=True)))
    return folder


@pytest.fixture
def failed(concluded: Path, tmp_path: Path) -> Path:
    """A copy of it without its pages."""
    shutil.copytree(concluded, tmp_path / "lost")
    for name in WRITTEN:
        (tmp_path / "lost" / name).unlink()
    return tmp_path / "lost"


def report(*folders: Path) -> Result:
    return CliRunner().invoke(make_app("report"), ["report", *map(str, folders)])


def test_the_page_is_written_anew_and_tells_what_the_first_one_told(
    concluded: Path, failed: Path
) -> None:
    result = report(failed)
    assert result.exit_code == 1, result.output
    assert f"fail {failed / PAGE}" in result.stdout
    assert all((failed / name).is_file() for name in WRITTEN)
    before, after = ((folder / PAGE).read_text() for folder in (concluded, failed))
    head, _, _ = before.partition("What happened")
    assert head.replace(str(concluded), str(failed)) in after
    assert (failed / "junit.xml").read_bytes() == (concluded / "junit.xml").read_bytes()


def test_a_run_that_was_interrupted_has_a_page(failed: Path) -> None:
    for document in (VERDICT, REQUIREMENTS, FINAL_LOOK):
        (failed / document.name).unlink(missing_ok=True)
    report(failed)
    page = (failed / PAGE).read_text()
    assert "Over time" in page
    assert not (failed / VERDICT.name).exists(), "a run's own files stay as they are"


def test_a_tests_cluster_has_a_page_with_the_command_that_runs_the_test_again(
    tmp_path: Path,
) -> None:
    folder = write_run(tmp_path / "test-20260101-000000-aaaa")
    segment(folder, 1).write_bytes(b"")
    (folder / TEST).write_text("tests/test_mine.py::test_it[a b]\n")
    assert report(folder).exit_code == 1
    page = (folder / PAGE).read_text()
    assert "pytest &#39;tests/test_mine.py::test_it[a b]&#39;" in page
    assert PLAN.name not in page


def test_a_page_made_by_other_code_names_the_commit_of_the_run(failed: Path) -> None:
    """Found: of a simulated run it was the commit of the code that wrote the page."""
    build = BUILD.read(failed)
    assert build is not None
    RunFolder.existing(failed).write(BUILD, replace(build, commit="c0ffee", highwater_version="9"))
    report(failed)
    assert "Highwater 9, commit c0ffee." in (failed / PAGE).read_text()


def test_a_folder_below_the_current_one_is_named_from_there(
    failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is read on other machines, too."""
    monkeypatch.chdir(failed.parent)
    report(failed)
    page = (failed / PAGE).read_text()
    assert f"<pre>highwater reproduce {failed.name}</pre>" in page
    assert f"<code>highwater run {failed.name}/plan.json --events</code>" in page
    assert str(failed) not in page


def test_an_unknown_runs_page_says_how_it_is_done_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / TEST).write_text("test_mine.py::test_it\n")
    assert report(folder).exit_code == 0
    assert "See it again" not in (folder / PAGE).read_text()
    (folder / FINAL_LOOK.name).unlink()
    assert report(folder).exit_code == 2
    assert "<pre>pytest test_mine.py::test_it</pre>" in (folder / PAGE).read_text()


def test_a_run_without_plan_and_test_says_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    segment(folder, 1).write_bytes(b"")
    report(folder)
    assert "This run has no plan." in (folder / PAGE).read_text()


def test_nothing_is_written_into_a_folder_that_is_no_run(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text("mine")
    result = report(tmp_path)
    assert isinstance(result.exception, HarnessError)
    assert [path.name for path in tmp_path.iterdir()] == [PAGE]
    assert (tmp_path / PAGE).read_text() == "mine"


def test_a_link_in_a_pages_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = write_run(tmp_path / "run")
    for name in WRITTEN:
        (folder / name).symlink_to(outside)
    assert report(folder).exit_code == 0
    assert outside.read_text() == "mine"
    assert not any((folder / name).is_symlink() for name in WRITTEN)


def test_a_plan_of_another_version_is_told_from_none(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a $^$ run")
    segment(folder, 1).write_bytes(b"")
    (folder / PLAN.name).write_text('{"format": 999}')
    os.mkfifo(folder / TEST)
    report(folder)
    page = (folder / PAGE).read_text()
    assert "Its plan cannot be read by this version." in page
    assert f'href="{PLAN.name}"' in page


def test_the_exit_code_is_that_of_the_worst(failed: Path, tmp_path: Path) -> None:
    passed = write_run(tmp_path / "passed")
    assert report(passed).exit_code == 0
    assert report(passed, failed).exit_code == 1


KILL = {"fault": "kill", "node": "broker-0", "for_ms": 4_000}
CUT = {"fault": "cut", "source": "leader of t-0", "target": "any", "plane": "replication"}


def spans(folder: Path, *lines: dict[str, Any]) -> list[FaultSpan]:
    folder.mkdir(exist_ok=True)
    text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    (folder / names.INTENTS).write_bytes(text + b"{torn")
    return fault_spans(folder)


def phase(at_ns: int, number: int, name: str, **more: Any) -> dict[str, Any]:
    return {"at_ns": at_ns, "number": number, "phase": name, **more}


def test_faults_act_from_their_proof_to_their_undoing(tmp_path: Path) -> None:
    found = spans(
        tmp_path,
        phase(1, 1, "intended", fault=CUT),
        phase(900, 1, "acting", acted_ns=500, proof="all lost"),
        phase(2_000, 1, "reverting"),
        phase(3_000, 1, "reverted"),
        phase(10, 2, "intended", fault=KILL),
        phase(20, 2, "acting", node=0, acted_ns=15),
        phase(30, 3, "intended", fault=KILL),
        phase(40, 3, "not_done", why="nobody"),
        phase(50, 4, "intended", fault={"fault": "of_tomorrow"}),
        phase(60, 4, "acting"),
    )
    assert [(span.node, span.begin_ns, span.end_ns) for span in found] == [
        (0, 15, 15 + 4_000_000_000),
        (None, 60, None),
        (None, 500, 2_000),
    ]
    assert [span.deed for span in found] == [
        "kill broker-0, started again after 4000 ms (broker-0)",
        "of_tomorrow",
        "cut leader of t-0 -> any on replication",
    ]
    assert found[2].proof == "all lost"


def test_a_run_without_an_intent_log_had_no_fault(tmp_path: Path) -> None:
    assert fault_spans(tmp_path) == []
