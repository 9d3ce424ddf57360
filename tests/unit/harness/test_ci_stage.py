"""`highwater init ci` writes a whole stage, and never over another file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from highwater.ci_stage import CiSystem, template_of, write_stage
from highwater.errors import HarnessError
from highwater.project import project_root

PLACES = {
    CiSystem.GITHUB: ".github/workflows/highwater.yml",
    CiSystem.GITLAB: ".gitlab-ci.yml",
    CiSystem.JENKINS: "Jenkinsfile",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "requirements.txt").write_text("highwater\npytest\n")
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.mark.parametrize("system", CiSystem)
def test_each_template_goes_to_its_place_once(system: CiSystem, project: Path) -> None:
    file = project / PLACES[system]
    first, again = (write_stage(system, project, force=False) for _ in range(2))
    assert (first.file, first.is_new, first.lacks) == (file, True, ())
    assert (again.file, again.is_new) == (file, False)
    assert file.read_text() == template_of(system)


@pytest.mark.parametrize("system", CiSystem)
def test_another_file_is_replaced_when_that_is_asked_for_alone(
    system: CiSystem, project: Path
) -> None:
    file = write_stage(system, project, force=False).file
    edited = template_of(system) + "# mine\n"
    file.write_text(edited)
    with pytest.raises(HarnessError, match="--force replaces it"):
        write_stage(system, project, force=False)
    assert file.read_text() == edited
    assert write_stage(system, project, force=True).is_new
    assert file.read_text() == template_of(system)


def test_a_project_with_a_gitlab_file_gets_one_to_include(project: Path) -> None:
    own = project / ".gitlab-ci.yml"
    own.write_text("stages: [build]\n")
    written = write_stage(CiSystem.GITLAB, project, force=True)
    assert written.file == project / ".gitlab/highwater.yml"
    assert "include: {local: .gitlab/highwater.yml}" in written.lacks[0]
    assert own.read_text() == "stages: [build]\n"
    own.write_text("include: {local: .gitlab/highwater.yml}\n")
    assert write_stage(CiSystem.GITLAB, project, force=False).lacks == ()


def test_what_a_project_lacks_is_told(tmp_path: Path) -> None:
    lacks = write_stage(CiSystem.GITHUB, tmp_path, force=False).lacks
    assert ["requirements.txt" in lacks[0], "git repository" in lacks[1]] == [True, True]


def test_a_place_that_cannot_be_written_is_told(project: Path) -> None:
    (project / ".github").write_text("a file\n")
    with pytest.raises(HarnessError, match="cannot be written: Not a directory"):
        write_stage(CiSystem.GITHUB, project, force=False)


@pytest.mark.parametrize("system", CiSystem)
def test_a_template_has_every_part_of_a_stage(system: CiSystem) -> None:
    text = template_of(system)
    for part in (
        "pip install --requirement requirements.txt",
        "highwater images ",
        "HIGHWATER_REQUIRE_DOCKER",
        "pytest --junit-xml=junit.xml",
        "highwater judge runs --markdown",
        "highwater soak --for 1h",
    ):
        assert part in text
    assert re.search(r"^ *(- )?(if: always\(\)|after_script:|always \{)$", text, re.MULTILINE)


def test_the_commands_of_the_templates_are_in_order() -> None:
    """`make lint` holds both against their systems' schemas."""
    job = yaml.safe_load(template_of(CiSystem.GITHUB))["jobs"]["failovers"]
    steps = [step.get("run", step.get("uses", "")) for step in job["steps"]]
    summary = next(step for step in job["steps"] if "--markdown" in step.get("run", ""))
    assert (summary["if"], summary["continue-on-error"]) == ("always()", True)
    kept = next(step for step in job["steps"] if step.get("id") == "kept")
    assert kept["if"] == "failure()"
    order = (
        "pip install",
        "images key",
        "cache/restore",
        "images load",
        "cache/save",
        "pytest",
        "upload-artifact",
        "judge",
    )
    at = [next(n for n, step in enumerate(steps) if part in step) for part in order]
    assert at == sorted(at)
    gitlab = yaml.safe_load(template_of(CiSystem.GITLAB))["highwater"]
    assert all(isinstance(line, str) for line in (*gitlab["script"], *gitlab["after_script"]))


def test_the_brackets_of_the_jenkinsfile_close() -> None:
    text = re.sub(r"//[^\n]*|'[^']*'", "", template_of(CiSystem.JENKINS))
    opened = []
    for bracket in re.findall(r"[(){}\[\]]", text):
        if bracket in "({[":
            opened.append(bracket)
        else:
            assert opened
            assert opened.pop() + bracket in ("()", "{}", "[]")
    assert opened == []


def test_the_example_project_has_the_file_that_is_written() -> None:
    example = project_root() / "examples/orders" / PLACES[CiSystem.GITHUB]
    assert example.read_text() == template_of(CiSystem.GITHUB)


def test_the_page_shows_the_template() -> None:
    page = (project_root() / "docs/how-to/ci-stage.md").read_text()
    assert f"```yaml\n{template_of(CiSystem.GITHUB)}```" in page
    for name in ("github.yml", "gitlab.yml", "Jenkinsfile"):
        assert f"(../../harness/highwater/ci_stage/templates/{name})" in page


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_in_the_files_place_is_told_and_stays(project: Path, force: bool) -> None:
    (project / "Jenkinsfile").mkdir()
    with pytest.raises(HarnessError, match="Jenkinsfile is a folder"):
        write_stage(CiSystem.JENKINS, project, force=force)
    assert (project / "Jenkinsfile").is_dir()
