"""The code that a run used, to tell the runs of one build from those of another."""

from __future__ import annotations

from dataclasses import replace

from highwater.checkout import commit_here, version_here
from highwater.cluster.cluster import Cluster
from highwater.run_folder import RunFolder
from highwater_checker.run_folder.documents import BUILD, SIMULATED, RunBuild


def write_build(folder: RunFolder, client: str = "") -> RunBuild:
    """Write and return the commit of the code that runs here, and the library of its clients."""
    build = RunBuild(commit_here(), client, highwater_version=version_here())
    folder.write(BUILD, build)
    return build


def write_simulated_build(folder: RunFolder) -> None:
    """Write the commit of the code that simulates the nodes here."""
    build = RunBuild(commit_here(), world=SIMULATED, highwater_version=version_here())
    folder.write(BUILD, build)


def write_mixed_builds(folder: RunFolder, cluster: Cluster) -> None:
    """Add to the run's build which node ran which, unless all ran the same one."""
    ran = {cluster.topology.node(node).name: tuple(own) for node, own in cluster.builds.items()}
    if len({build for own in ran.values() for build in own}) > 1:
        build = BUILD.read(folder.path) or RunBuild()
        folder.write(BUILD, replace(build, nodes=ran))
