"""The commit named in kept plans: the checkout's own, and whether its files are changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from highwater.checkout import commit_of

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    run = subprocess.run(
        ("git", *IDENTITY, *words), cwd=folder, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # as a commit hook would have them
        monkeypatch.delenv(name, raising=False)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "code.py").write_text("x = 1\n")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def test_a_checkout_has_its_commit_and_says_when_files_are_changed(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    (checkout / "plan.json").write_text("{}")  # not a file of the commit
    assert commit_of(checkout) == commit
    (checkout / "code.py").write_text("x = 2\n")
    assert commit_of(checkout) == f"{commit}-dirty"


def test_a_tag_does_not_take_the_commits_place(checkout: Path) -> None:
    git(checkout, "tag", "--annotate", "v1", "--message", "one")
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD")


def test_a_hooks_environment_is_not_asked_for_another_repository(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert commit_of(checkout) == commit


def test_there_is_no_commit_where_there_is_no_checkout(checkout: Path) -> None:
    inside = checkout / "site-packages"
    inside.mkdir()
    assert commit_of(inside) == ""


def test_there_is_no_commit_where_git_is_not_to_be_had(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit_of(checkout) == ""
