"""A harness is killed at each step of a fault; `highwater heal` then leaves nothing of the fault.

For one fault of each mechanism the harness dies while it does the fault, and while it undoes it. In
the full matrix it dies at every step of every fault. The steps are found, not listed: first each
fault is done and undone by a harness that lives and lists its moments (dying_harness.py).
"""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.cluster.cleaning import find_runs, sweep_stale
from highwater.cluster.cluster import Cluster
from highwater.cluster.images import ensure_faults_image
from highwater.cluster.topology import Topology
from highwater.faults.examples import EXAMPLES, TOPIC, example_name
from highwater.run_folder import new_run_id
from highwater.runs.chaos.acting import acting_faults
from highwater.waiting import eventually
from highwater_chaos import faults as f
from highwater_checker.run_folder.names import INTENTS
from tests.integration import dying_harness
from tests.support.fuse import HAS_FUSE, NEEDS_FUSE, marks_of

pytestmark = pytest.mark.docker

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["pytest", "highwater.faults.on_containers", "highwater.cluster.settling"]
)
"""There are many harnesses: their slowest part, the imports, is done once."""
LIVES_WITHIN_S = 90.0
OPEN = ("intended", "acting", "reverting")
"""Phases after which the log must say that the fault may act."""
HALF_BACK = "reverting: written"
OF_EACH_MECHANISM = (
    ("kill_and_empty", "intended: asked to POST /containers/*/kill"),
    ("pause", "intended: asked to POST /containers/*/pause"),
    ("disk_full", HALF_BACK),
    pytest.param("disk_errors", "intended: acting is about to be written", marks=NEEDS_FUSE),
    ("delay_at", "intended: acting is about to be written"),
    ("cut", "intended: asked to POST /containers/*/wait"),
    ("cut", HALF_BACK),
    ("slow_link", "intended: acting is about to be written"),
    ("reset_connections", "intended: asked to POST /containers/*/start"),
    ("restart_zookeeper", HALF_BACK),
)
"""Faults, and the moment in which each is half done or half undone."""
STOPPED_NODE = 1
"""The node of the example of a stop."""
LEAST_LINES = 8
"""Moments of the log: before and after the lines intended, acting, reverting, reverted."""
GETS_READY = "nothing: asked "
"""The beginning of moments in which helpers are tried out, before the fault's first line."""


@pytest.fixture(scope="session")
def broken_often(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all kills: each test leaves it as it was, or the next test's check fails."""
    with Cluster(
        Topology(controllers=1),
        new_run_id("often"),
        sized_disks=True,
        faulty_disks=HAS_FUSE,
        movable_clocks=True,
    ) as cluster:
        ensure_faults_image(cluster.engine)
        cluster.start()
        live(cluster, TOPIC, tmp_path_factory.mktemp("often") / "topic")
        yield cluster


@dataclass(frozen=True, slots=True)
class Life:
    """A harness's moments in order, whether it was killed, and its log's open faults."""

    moments: tuple[str, ...]
    was_killed: bool
    open_faults: tuple[f.Fault, ...]


def live(cluster: Cluster, fault: f.Fault, folder: Path, fatal: str = "", time: int = 0) -> Life:
    """Have another process do and undo the fault, or die at the fatal moment."""
    folder.mkdir()
    harness = PROCESSES.Process(
        target=dying_harness.live, args=(cluster.run_id, fault, folder, fatal, time), daemon=True
    )
    harness.start()
    harness.join(LIVES_WITHIN_S)
    if (code := harness.exitcode) is None:
        harness.kill()
    told = {path.name: path.read_text() for path in folder.iterdir()}
    assert code in (0, -signal.SIGKILL), f"{fatal}: {code}: {told}"
    moments = told[dying_harness.MOMENTS].splitlines()
    intents = folder / INTENTS
    acting = acting_faults(intents) if intents.exists() else []
    return Life(tuple(moments), code != 0, tuple(each.fault for each in acting))


def steps_of(moments: Sequence[str], *, getting_ready: bool) -> list[tuple[str, int]]:
    """Return the first and last occurrence of each moment, in the order of the first ones.

    Occurrences between are the same request for other nodes.
    """
    return [
        (moment, time)
        for moment, count in Counter(moments).items()
        if getting_ready or not moment.startswith(GETS_READY)
        for time in {1: "first", count: "last"}
    ]


def resources(cluster: Cluster) -> list[str]:
    """Return the run's containers, networks and volumes."""
    (run,) = find_runs(cluster.engine, cluster.run_id)
    return sorted((*run.containers, *run.networks, *run.volumes))


def heal(cluster: Cluster) -> dict[str, list[str]]:
    """Run `highwater heal`, which must leave no problem; return its findings by node."""
    result = CliRunner().invoke(make_app("heal"), ["heal", "--run", cluster.run_id, "--json"])
    assert result.stdout, (result.exit_code, result.stderr, result.exception)
    (healed,) = json.loads(result.stdout)
    assert (result.exit_code, healed["problems"]) == (0, []), healed
    return {node["name"]: node["found"] for node in healed["nodes"] if node["found"]}


def check_what_is_left(cluster: Cluster, before: list[str], life: Life, fault: f.Fault) -> None:
    """Heal, and check that only faults that the log has open were found, and that none is left."""
    last = life.moments[-1]
    if last.endswith("/stop"):
        # The engine goes on with the stop; healed earlier, the node would stop afterwards.
        eventually(lambda: cluster.status(STOPPED_NODE) == "exited", within=60.0, what=last)
    if last.split(":")[0] in OPEN:
        assert life.open_faults == (fault,), last
    # The helpers that the harness left do not make the run stale.
    assert cluster.run_id not in sweep_stale(cluster.engine), last
    found = heal(cluster)
    assert not found or life.open_faults, f"{last}: the log does not tell of {found}"
    eventually(
        lambda: resources(cluster) == before,
        within=30.0,
        what=f"nothing more of the run is there than before the fault ({last})",
        state=lambda: resources(cluster),
    )
    if found:
        cluster.wait_until_ready()


@pytest.mark.parametrize(("name", "moment"), OF_EACH_MECHANISM)
def test_nothing_stays_of_a_mechanism_that_loses_its_harness_half_way(
    broken_often: Cluster, name: str, moment: str, tmp_path: Path
) -> None:
    (fault,) = [each for each in EXAMPLES if example_name(each) == name]
    before = resources(broken_often)
    life = live(broken_often, fault, tmp_path / "killed", moment, 1)
    assert life.was_killed, life.moments
    check_what_is_left(broken_often, before, life, fault)


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, id=example_name(each), marks=marks_of(each)) for each in EXAMPLES],
)
def test_nothing_stays_wherever_in_its_life_a_fault_loses_its_harness(
    broken_often: Cluster, fault: f.Fault, tmp_path: Path
) -> None:
    cluster = broken_often
    before = resources(cluster)
    life = live(cluster, fault, tmp_path / "whole")
    assert (life.was_killed, life.open_faults) == (False, ())
    assert heal(cluster) == {}
    killed: Counter[str] = Counter()
    # The moments before the first line are the same for all faults of a mechanism.
    steps = steps_of(life.moments, getting_ready=isinstance(fault, f.Cut | f.SlowLink))
    for number, (moment, time) in enumerate(steps):
        life = live(cluster, fault, tmp_path / str(number), moment, time)
        killed[moment] += life.was_killed
        check_what_is_left(cluster, before, life, fault)
    # Requests of a fault's threads come in this phase or the next; lines come in order.
    lines = [moment for moment, _ in steps if moment.endswith("written")]
    assert [moment for moment in lines if not killed[moment]] == []
    assert len(lines) >= LEAST_LINES
