"""`highwater pipeline run` as it is typed: a report and an exit code, or advice."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from highwater_checker.verdict import EXIT_CODES, Outcome
from tests.pipeline.command import highwater, highwater_without_java
from tests.pipeline.run_folders import clean_run

WITHIN_S = 900
"""Of a whole analysis, minutes as yet where others work as well: hundreds of small stages."""


def pipeline_run(
    *arguments: str | Path, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return highwater("pipeline", "run", *arguments, cwd=cwd, within_s=WITHIN_S, **environment)


@pytest.mark.full
@pytest.mark.timeout(3 * WITHIN_S)
def test_a_run_becomes_a_report_and_is_taken_in_once(tmp_path: Path) -> None:
    clean_run(tmp_path / "runs" / "run-1")
    (tmp_path / "empty").mkdir()
    first = pipeline_run("runs/run-1", "empty", "--json", cwd=tmp_path)
    told = json.loads(first.stdout)
    (verdict,) = told["verdicts"]
    assert verdict["run_id"] == "run-1"
    # Its logs hold other records than its clients' histories.
    assert verdict["outcome"] == "fail"
    assert first.returncode == EXIT_CODES[Outcome.FAIL]
    assert {each["invariant"] for each in told["findings"]["rows"]} >= {"I1"}
    assert "1 ingested, 1 refused" in first.stderr
    assert "refused empty:" in first.stderr
    page = (tmp_path / "runs" / "pipeline" / "report.html").read_text()
    assert '<p class="fail">fail: 1 run, ' in page

    again = pipeline_run("runs/run-1", cwd=tmp_path)
    assert "1 unchanged" in again.stderr
    assert "verdict: fail" in again.stdout
    assert (tmp_path / "runs" / "pipeline" / "report.html").read_text() == page


def test_without_a_run_it_ends_though_spark_starts_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "run-1").mkdir()
    done = pipeline_run("run-1", "--engine", "spark", cwd=tmp_path)
    assert done.returncode == 2
    assert "none of these folders is a run" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("is_there", [False, True], ids=["no java", "old java"])
def test_without_a_usable_java_it_names_the_package_to_install(
    tmp_path: Path, is_there: bool
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    (tmp_path / "run-1").mkdir()
    said = "install a JRE"
    if is_there:
        java.parent.mkdir(parents=True)
        java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
        java.chmod(0o755)
        said = f'Spark needs Java 17 or newer; {java} is openjdk version "11.0.2"'
    done = highwater_without_java(
        "pipeline", "run", "run-1", "--engine", "spark", cwd=tmp_path, java_home=tmp_path / "jdk"
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
