"""The commit and the version of the code that runs here."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from highwater.errors import HarnessError
from highwater.project import project_root

_GIT_WITHIN_S = 20
_DESCRIBE = ("git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=40")
_NO_TAGS = "--exclude=*"


@cache
def commit_here() -> str:
    """Return the checkout's commit as it is when first asked, "" where there is none.

    It ends in "-dirty" where tracked files differ from that commit: a plan that failed then may
    pass on that commit.
    """
    try:
        return commit_of(project_root())
    except HarnessError:  # installed without a checkout
        return ""


def version_here() -> str:
    """Return the version of the installed package, "" where its sources run without one."""
    try:
        return metadata.version("highwater")
    except metadata.PackageNotFoundError:
        return ""


def commit_of(root: Path) -> str:
    """Return the commit of the checkout whose top folder this is, "" if it is none or git fails."""
    if not (root / ".git").exists():  # git would look in the folders above
        return ""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        said = subprocess.run(  # noqa: S603 (words of ours)
            (*_DESCRIBE, _NO_TAGS),
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=_GIT_WITHIN_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()
