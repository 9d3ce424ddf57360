"""Nodes of two builds in one cluster: upgraded one by one under load, and judged."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from msgspec.structs import replace

from highwater import HarnessError, Outcome, Plan, Topology, await_full_isr, create_topic
from highwater.cluster.engine import connect_engine
from highwater.cluster.images import ensure_images
from highwater.run_folder import new_run_id
from highwater.runs.chaos.planted_plans import PLANTED_PLANS
from highwater.runs.judged.cluster import JudgedCluster
from highwater.runs.plans.running import read_plan
from highwater_chaos import faults as f
from highwater_chaos.plan import Expected, Step
from highwater_checker.run_folder.documents import BUILD
from tests.integration.plan_runs import run_plan

pytestmark = pytest.mark.docker

UPGRADE_EACH_MS = 14_000
BROKEN = """USER root
RUN rm -r /opt/highwater/packages/highwater_broker
USER highwater"""

MakeImage = Callable[[str, str], str]


@pytest.fixture
def make_image() -> Iterator[MakeImage]:
    """Makes an image like this build's, with more lines in its Dockerfile, and returns its tag."""
    engine: docker.DockerClient = connect_engine()
    made: list[str] = []

    def make(name: str, lines: str) -> str:
        tag = f"highwater/node:{new_run_id(name)}"
        text = f"FROM {ensure_images(engine).node}\nENV HIGHWATER_BUILD={tag}\n{lines}\n"
        engine.images.build(fileobj=io.BytesIO(text.encode()), tag=tag, rm=True, forcerm=True)
        made.append(tag)
        return tag

    yield make
    for tag in made:
        engine.images.remove(tag, force=True)
    engine.close()


def test_a_broker_comes_up_with_another_build_and_goes_back_from_one_that_does_not_start(
    make_image: MakeImage, tmp_path: Path
) -> None:
    older, broken = make_image("older", ""), make_image("broken", BROKEN)
    topology = Topology(brokers=2, controllers=1)
    folder = tmp_path / new_run_id("test")
    with JudgedCluster(topology, folder, images={1: older}) as cluster:
        cluster.start()
        this = cluster.snapshot(0).build
        assert (this != older, cluster.snapshot(1).build) == (True, older)
        create_topic(cluster, "t", replicas=[(1, 0)])
        producer = cluster.producer({"acks": "all"})
        producer.produce("t", "before")
        done = cluster.upgrade(1)
        assert (done.before, done.after, cluster.snapshot(1).build) == (older, this, this)
        producer.produce("t", "between")
        with pytest.raises(HarnessError, match="No module named") as error:
            cluster.upgrade(1, broken)
        assert str(error.value).endswith(f"it runs {this} again")
        assert "No module named" in cluster.logs(1)  # of the container that is removed
        with pytest.raises(HarnessError, match="the engine has no image highwater/node:nobodys"):
            cluster.upgrade(1, "nobodys")
        producer.produce("t", "after")
        assert producer.flush(30) == 0
        await_full_isr(cluster, "t")
        verdict = cluster.judge()
    assert verdict.outcome is Outcome.PASS, verdict.reasons
    build = BUILD.read(folder)
    assert build is not None
    assert build.nodes["broker-1"] == (older, this)
    assert build.nodes["broker-0"] == (this,)


def upgraded_before_its_steps(plan: Plan) -> Plan:
    """Return the plan, in which every broker first goes to the build without the planted bug.

    Nobody writes meanwhile: brokers with the bug lose records when they hand a leadership over.
    """
    brokers = range(plan.topology.brokers)
    upgrades = [
        Step(1_000 + number * UPGRADE_EACH_MS, f.Upgrade(f"broker-{number}")) for number in brokers
    ]
    later_ms = len(upgrades) * UPGRADE_EACH_MS
    silence = Step(200, f.KillClient(for_ms=later_ms))
    steps = [replace(step, at_ms=step.at_ms + later_ms) for step in plan.steps]
    return replace(
        plan,
        steps=(silence, *upgrades, *steps),
        quiet_after_ms=plan.quiet_after_ms + later_ms,
        expected=Expected(planted=plan.planted),
    )


@pytest.mark.full
def test_a_planted_bug_is_gone_once_every_broker_runs_the_sound_build(tmp_path: Path) -> None:
    """With the bug the same schedule fails: test_planted_bugs_in_containers.py."""
    (planted,) = [each for each in PLANTED_PLANS if each.bug == "acknowledged_on_append"]
    plan = upgraded_before_its_steps(planted.plan())
    verdict = run_plan(plan, tmp_path).verdict
    assert verdict.outcome is Outcome.PASS, verdict.reasons


@pytest.mark.full
def test_every_node_goes_from_one_preset_to_another_under_load(tmp_path: Path) -> None:
    scenario = Path(__file__).parents[1] / "scenarios" / "rolling_upgrade_of_presets.json"
    verdict = run_plan(read_plan(scenario), tmp_path).verdict
    assert verdict.outcome is Outcome.PASS, verdict.reasons
