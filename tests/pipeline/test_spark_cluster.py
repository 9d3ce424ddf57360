"""The pipeline and a campaign on Spark in containers: the answers that they give here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest

from highwater.cluster.engine import connect_engine
from highwater.cluster.images import ensure_spark_image
from highwater.cluster.subnets import candidates, host_routes
from highwater.project import project_root
from highwater.run_folder import new_run_id
from highwater.waiting import eventually
from highwater_checker.history import HistoryEvent, OperationType, encode
from highwater_core.config import Preset
from highwater_simulator.generate import Family
from highwater_simulator.search import Chunk, schedules_of
from tests.pipeline.command import highwater
from tests.pipeline.run_folders import clean_run

pytestmark = [pytest.mark.docker, pytest.mark.timeout(2400)]

COMPOSE_WITHIN_S = 300
WORKERS_WITHIN_S = 120
SUBMITTED_WITHIN_S = 900
WORKERS = 2
SUBNETS = IPv4Network("10.214.0.0/16")


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """compose/overlays/spark.yaml, up; its workers see the files below runs."""

    command: tuple[str, ...]
    environment: dict[str, str]
    subnet: str
    runs: Path

    @property
    def master(self) -> str:
        return f"spark://{self.subnet}.10:7077"

    def compose(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self.command, *arguments],
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMPOSE_WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def alive_workers(self) -> int:
        with urlopen(f"http://{self.subnet}.10:8080/json/", timeout=10) as page:
            return int(json.load(page)["aliveworkers"])

    def logs(self) -> str:
        return self.compose("logs", "--no-color", "--tail", "20")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    program = shutil.which("docker-compose")
    if program is None:
        missing = "docker-compose is not installed: run scripts/test-tools"
        if os.environ.get("HIGHWATER_REQUIRE_DOCKER") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    project, runs = new_run_id("test"), tmp_path_factory.mktemp("runs")
    subnet = str(next(candidates(SUBNETS, host_routes(), key=project))).removesuffix(".0/24")
    file = project_root() / "compose" / "overlays" / "spark.yaml"
    up = SparkCluster(
        (program, "--project-name", project, "--file", str(file)),
        {
            "HIGHWATER_SPARK_IMAGE": ensure_spark_image(connect_engine()),
            "HIGHWATER_SPARK_RUNS": str(runs),
            "HIGHWATER_SPARK_SUBNET": subnet,
            "HIGHWATER_SPARK_USER": f"{os.getuid()}:{os.getgid()}",
        },
        subnet,
        runs,
    )
    try:
        up.compose("up", "--detach")
        eventually(
            lambda: up.alive_workers() == WORKERS,
            within=WORKERS_WITHIN_S,
            what=f"{WORKERS} workers at {up.master}",
            state=up.logs,
            retry_on=OSError,
        )
        yield up
    finally:
        up.compose("down", "--volumes", "--timeout", "5")


def json_of(*arguments: str | Path, cwd: Path, **environment: str) -> dict[str, Any]:
    """Return the JSON that the command prints, also if the verdict is fail or unknown."""
    done = highwater(*arguments, "--json", cwd=cwd, within_s=SUBMITTED_WITHIN_S, **environment)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def lost_send() -> bytes:
    """Return the lines of a send that was acknowledged, of a record that no log has."""
    told = ((OperationType.INVOKE, -1), (OperationType.OK, 1_000))
    events = [
        HistoryEvent(9_000 + offset, type_, 9, "p0", "send", "t", 0, "lost", offset)
        for type_, offset in told
    ]
    return b"".join(encode(event) + b"\n" for event in events)


def three_runs(runs: Path) -> list[Path]:
    """Write a run as it should be, one with a lost record, and one with a line cut short."""
    whole, lost, cut = (clean_run(runs / name) for name in ("whole", "lost", "cut"))
    lost.change("history/p0.jsonl", lambda data: data + lost_send())
    cut.replace_line("history/c0.jsonl", 1, b'{"time_ns"')
    return [each.path for each in (whole, lost, cut)]


def worked_on(events: Path) -> list[str]:
    """Return the addresses where tasks of Spark's event log ended well, sorted."""
    lines = (line for path in events.glob("**/events_*") for line in path.read_text().splitlines())
    ends = (json.loads(line) for line in lines if '"SparkListenerTaskEnd"' in line)
    return sorted({end["Task Info"]["Host"] for end in ends if not end["Task Info"]["Failed"]})


@pytest.mark.full
def test_the_pipeline_gives_on_a_cluster_the_answer_that_it_gives_here(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    folders, store, events = three_runs(cluster.runs), cluster.runs / "tables", tmp_path / "events"
    events.mkdir()
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\n"
        f"spark.eventLog.dir {events.as_uri()}\n"
    )
    run = ("pipeline", "run", *folders, "--store")
    there = json_of(
        *run, store, "--master", cluster.master, cwd=tmp_path, SPARK_CONF_DIR=str(tmp_path)
    )
    here = json_of(*run, tmp_path / "tables", "--master", "local[2]", cwd=tmp_path)
    assert there == here
    findings = {row["run_id"]: row["findings"] for row in there["verdicts"]}
    assert findings["lost"] > findings["whole"]
    assert [(row["run_id"], row["line"]) for row in there["quarantine"]["rows"]] == [("cut", 1)]
    assert len(worked_on(events)) == WORKERS
    written = [path for path in store.glob("**/*.parquet") if path.is_file()]
    assert written
    assert {path.stat().st_uid for path in (store, *written)} == {os.getuid()}


@pytest.mark.full
def test_a_campaign_runs_on_a_cluster_as_a_search_does_here(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    seeds, store = 2, cluster.runs / "campaigns"
    place = ("--store", store, "--out", tmp_path / "out")
    asked = ("--seeds", str(seeds), "--name", "c", "--master", cluster.master)
    told = json_of("campaign", *asked, *place, cwd=tmp_path)
    assert told["search"]["schedules"] == seeds * len(Family)
    rows = pq.read_table(store / "schedules").sort_by("number").to_pylist()
    schedules = schedules_of(1, seeds * len(Family), tuple(Family))
    summaries = Chunk(tuple(schedules), Preset.FENCED).summaries(lambda: 0)
    assert [(row["outcome"], row["events"], row["acknowledged"]) for row in rows] == [
        ("pass", each.events, each.acknowledged) for each in summaries
    ]


def test_a_missing_master_is_reported(tmp_path: Path) -> None:
    clean_run(tmp_path / "run-1")
    done = highwater(
        *("pipeline", "run", "run-1", "--master", "spark://127.0.0.1:1"),
        cwd=tmp_path,
        within_s=SUBMITTED_WITHIN_S,
    )
    assert done.returncode == 2
    assert "no Spark master answers at spark://127.0.0.1:1: [Errno 111]" in done.stderr
    assert "Traceback" not in done.stderr
