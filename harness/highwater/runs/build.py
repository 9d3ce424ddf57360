"""The code that a run used, to tell the runs of one build from those of another."""

from __future__ import annotations

from highwater.checkout import commit_here
from highwater.run_folder import RunFolder
from highwater_checker.run_folder.documents import BUILD, RunBuild


def write_build(folder: RunFolder, client: str = "") -> RunBuild:
    """Write and return the commit of the code that runs here, and the library of its clients."""
    build = RunBuild(commit_here(), client)
    folder.write(BUILD, build)
    return build
