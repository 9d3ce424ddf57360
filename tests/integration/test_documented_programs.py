"""Programs of the documentation, as it shows them: its tests in Python, and the one in Java."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from highwater import JudgedCluster, create_topic
from tests.support.docs_blocks import ROOT, python_blocks

pytestmark = [pytest.mark.docker, pytest.mark.full]
JAVA = ROOT / "examples" / "java"
ON_CLUSTERS = [
    block
    for block in python_blocks()
    if block.is_whole_test and "highwater_plan(" not in block.code  # of the reader's own plans
]


def run(*command: str, folder: Path, within_s: float = 300) -> str:
    """Return what the command prints; it must end with 0."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=within_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_tests_that_the_pages_show_pass(tmp_path: Path) -> None:
    assert len(ON_CLUSTERS) >= 3
    for number, block in enumerate(ON_CLUSTERS):
        (tmp_path / f"test_{number}.py").write_text(f"# {block}\n{block.code}", encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers")
    said = run(*command, folder=tmp_path, within_s=900)
    assert f"{len(ON_CLUSTERS)} passed" in said


@pytest.mark.skipif(shutil.which("mvn") is None, reason="needs Maven (mvn)")
@pytest.mark.highwater(brokers=1, controllers=1)
def test_the_java_example_writes_and_reads_orders(
    highwater_cluster: JudgedCluster, tmp_path: Path
) -> None:
    project = tmp_path / "java"
    shutil.copytree(JAVA, project, ignore=shutil.ignore_patterns("target"))
    create_topic(highwater_cluster, "orders", replicas=[(0,)] * 3)
    run(
        "mvn", "-q", "--batch-mode", "compile", "dependency:build-classpath",
        "-Dmdep.outputFile=target/classpath", folder=project,
    )  # fmt: skip
    classes = f"target/classes:{(project / 'target' / 'classpath').read_text()}"
    program = ("java", "-cp", classes, "Orders")
    said = run(*program, "write", highwater_cluster.bootstrap, "2", folder=project)
    assert said == "sent: 20\n"
    command = (*program, "read", highwater_cluster.bootstrap, "120")
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as reading:
        assert reading.stdout is not None
        said = next((line for line in reading.stdout if "committed: 20 of [" in line), "")
        reading.kill()
    assert said.startswith("read and committed: 20 of [orders-")
