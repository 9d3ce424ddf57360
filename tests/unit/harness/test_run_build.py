"""A run's folder names the code that ran."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.checkout import version_here
from highwater.cluster.topology import Topology
from highwater.run_folder import RunFolder, was_on_containers
from highwater.runs import build as run_build
from highwater.runs.build import write_build, write_mixed_builds, write_simulated_build
from highwater_checker.run_folder.documents import BUILD, RunBuild


@pytest.mark.parametrize("commit", ["c0ffee-dirty", ""])
def test_the_commit_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str
) -> None:
    monkeypatch.setattr(run_build, "commit_here", lambda: commit)
    build = write_build(RunFolder(tmp_path / "run"))
    assert BUILD.read(tmp_path / "run") == build
    assert build == RunBuild(commit, highwater_version=version_here())


def test_a_simulated_runs_build_is_told_from_one_on_containers(tmp_path: Path) -> None:
    simulated, real = RunFolder(tmp_path / "simulated"), RunFolder(tmp_path / "real")
    write_simulated_build(simulated)
    write_build(real)
    assert not was_on_containers(simulated.path)
    assert was_on_containers(real.path)
    (real.path / BUILD.name).write_text('{"commit": "c0ffee", "client": "own"}')
    assert was_on_containers(real.path), "as earlier versions wrote it"
    (real.path / BUILD.name).write_text("{")
    assert was_on_containers(real.path)
    (real.path / BUILD.name).unlink()
    assert not was_on_containers(real.path)


def ran(**by_node: list[str]) -> Any:
    builds = {int(name.removeprefix("broker")): own for name, own in by_node.items()}
    return SimpleNamespace(topology=Topology(), builds=builds)


def test_of_mixed_builds_each_nodes_are_added(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    write_build(folder, "own")
    write_mixed_builds(folder, ran(broker0=["a", "b"], broker1=["a"], broker2=["a", "b"]))
    build = BUILD.read(folder.path)
    assert build is not None
    assert build.client == "own"
    assert build.nodes == {"broker-0": ("a", "b"), "broker-1": ("a",), "broker-2": ("a", "b")}
    assert build.told() == ("broker-0, broker-2: a -> b", "broker-1: a")


def test_of_one_build_nothing_is_added(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    build = write_build(folder)
    write_mixed_builds(folder, ran(broker0=["a", "a"], broker1=["a"]))
    assert BUILD.read(folder.path) == build


def test_code_that_runs_without_its_package_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: from sources on PYTHONPATH alone, each run ended with a traceback."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert version_here() == ""
