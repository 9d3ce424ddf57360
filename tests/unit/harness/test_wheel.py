"""The wheel is enough: what is made from the checkout's files is made from it, too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.ci_stage import CiSystem, template_of
from highwater.cluster.images.tags import image_tags
from highwater.project import PACKED_SOURCES, project_root
from tests.support.wheels import environment_with, installed_wheel

TAGS = (
    "import json; from highwater.cluster.images.tags import image_tags; "
    "from highwater.project import project_root; "
    "print(json.dumps([str(project_root()), *image_tags(project_root()).all()]))"
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_wheel(tmp_path_factory.mktemp("wheel"))


def run(installed: Path, cwd: Path, *arguments: str) -> str:
    """Return the output of Python with these arguments, away from the checkout."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment_with(installed),
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout


def test_images_have_the_same_tags_as_those_of_the_checkout(
    installed: Path, tmp_path: Path
) -> None:
    root, *tags = json.loads(run(installed, tmp_path, "-c", TAGS))
    assert Path(root) == installed / "highwater" / PACKED_SOURCES
    assert tags == list(image_tags(project_root()).all())


def test_a_bug_is_shown_from_its_packed_plan(installed: Path, tmp_path: Path) -> None:
    shown = run(
        installed, tmp_path, "-c", "from highwater.cli import main; main()", "bugs", "show", "1"
    )
    assert "no invariant was violated" in shown


@pytest.mark.parametrize("system", CiSystem)
def test_a_stage_of_a_ci_is_written_from_it(
    system: CiSystem, installed: Path, tmp_path: Path
) -> None:
    call = "from highwater.cli import main; main()"
    file = run(installed, tmp_path, "-c", call, "init", "ci", "--for", system).strip()
    assert (tmp_path / file).read_text() == template_of(system)


def test_it_has_no_test_and_is_typed(installed: Path) -> None:
    packed = installed / "highwater" / PACKED_SOURCES
    assert not list((packed / "tests").rglob("*.py"))
    assert list((packed / "tests" / "plans" / "bugs").glob("*.json"))
    packages = [path for path in installed.glob("highwater*") if (path / "__init__.py").is_file()]
    assert len(packages) >= 10
    assert [path.name for path in packages if not (path / "py.typed").is_file()] == []
