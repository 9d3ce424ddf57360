"""Which code a run was of: what tells the runs of one build from those of another."""

from __future__ import annotations

import msgspec

from highwater.checkout import commit_here
from highwater.run_folder import RunFolder
from highwater_checker.run_folder.names import BUILD


class RunBuild(msgspec.Struct, frozen=True):
    """commit: of the checkout, ending in "-dirty" where files differ from it; "" without one."""

    commit: str


def write_build(folder: RunFolder) -> RunBuild:
    """Write down, and return, which code runs here."""
    build = RunBuild(commit_here())
    folder.write_json(BUILD, build)
    return build
