"""Files for a CI that run a project's tests against failovers: templates/, and where each goes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from highwater.errors import HarnessError

TEMPLATES = Path(__file__).parent / "templates"
WRITTEN_BY = "Written by: highwater init ci"
"""In the first line of every template."""
GITLAB_OWN = Path(".gitlab-ci.yml")
GITLAB_INCLUDED = Path(".gitlab/highwater.yml")
REQUIREMENTS = Path("requirements.txt")
"""What every template installs."""


class CiSystem(StrEnum):
    """The systems that have a template."""

    GITHUB = "github"
    GITLAB = "gitlab"
    JENKINS = "jenkins"


_TEMPLATE = {
    CiSystem.GITHUB: "github.yml",
    CiSystem.GITLAB: "gitlab.yml",
    CiSystem.JENKINS: "Jenkinsfile",
}


@dataclass(frozen=True, slots=True)
class Written:
    """A stage's file, and what its project lacks, in words; is_new: this call wrote it."""

    file: Path
    is_new: bool
    lacks: tuple[str, ...]


def template_of(system: CiSystem) -> str:
    """Return the text of the stage's file."""
    return (TEMPLATES / _TEMPLATE[system]).read_text(encoding="utf-8")


def place_of(system: CiSystem, folder: Path) -> Path:
    """Return where the stage's file goes in the project.

    GitLab has one file for all stages. Where a project has one already, the stage's is another,
    which that one may include.
    """
    if system is CiSystem.GITHUB:
        return folder / ".github/workflows/highwater.yml"
    if system is CiSystem.JENKINS:
        return folder / "Jenkinsfile"
    own = folder / GITLAB_OWN
    return own if not own.exists() or _is_ours(own) else folder / GITLAB_INCLUDED


def write_stage(system: CiSystem, folder: Path, *, force: bool) -> Written:
    """Write the stage's file into the project.

    Raises:
        HarnessError: another file is there and force is not given, or it cannot be written.
    """
    file, text = place_of(system, folder), template_of(system)
    if file.is_dir():
        raise HarnessError(f"{file} is a folder; the stage's file has its place")
    try:
        is_new = not file.is_file() or file.read_bytes() != text.encode()
        if is_new:
            if file.exists() and not force:
                raise HarnessError(f"{file} is there and says something else: --force replaces it")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{file} cannot be written: {error.strerror or error}") from error
    return Written(file, is_new, tuple(_lacking(system, folder, file)))


def _is_ours(file: Path) -> bool:
    return WRITTEN_BY in _text_of(file).partition("\n")[0]


def _names(file: Path, other: Path) -> bool:
    return str(other) in _text_of(file)


def _text_of(file: Path) -> str:
    """Return the file's text, "" if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _lacking(system: CiSystem, folder: Path, file: Path) -> list[str]:
    lacks = []
    if not (folder / REQUIREMENTS).is_file():
        lacks.append(
            f"it installs {REQUIREMENTS}, which is missing: name Highwater's wheel and pytest in it"
        )
    own = folder / GITLAB_OWN
    if file == folder / GITLAB_INCLUDED and not _names(own, GITLAB_INCLUDED):
        lacks.append(f"{own} has to have 'include: {{local: {GITLAB_INCLUDED}}}'")
    if not (folder / ".git").exists():
        lacks.append(f"{folder} is not the top of a git repository, where {system} looks for it")
    return lacks
