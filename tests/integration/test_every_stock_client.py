"""Every stock client, unmodified, does the same steps; also while a broker dies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from highwater.cluster.cluster import Cluster
from highwater.waiting import eventually
from highwater_core.config import Preset
from tests.clients.runs import PASSED, Run, keep_run
from tests.clients.steps import STEPS, Scene, take_on
from tests.clients.table import CLIENTS, ROW_NAMES, ROWS, Client, ClientMissing

pytestmark = pytest.mark.docker

WITHIN_S = 60.0
PRESET = Preset.FENCED

under_preset = pytest.mark.parametrize(
    "brisk", [pytest.param(PRESET, id=f"brisk-{PRESET.value}")], indirect=True
)


def coordinator_of(cluster: Cluster, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def asked() -> tuple[int]:
        (described,) = admin.describe_consumer_groups([group]).values()
        return (int(described.result(WITHIN_S).coordinator.id),)

    (found,) = eventually(asked, within=WITHIN_S, what="a coordinator", retry_on=KafkaException)
    return found


def gone_through(
    cluster: Cluster,
    new_topic: Callable[..., str],
    client: Client,
    killed: str,
    steps: Collection[str],
) -> Run:
    """Let the client's program do these steps, and return what came of it.

    Raises:
        ClientMissing: this machine has not the client.
    """
    command, version = client.program.command(), client.program.version()
    begun_s = time.monotonic()
    group = f"group-of-{client.name}-{killed}-{len(steps)}"
    coordinator = coordinator_of(cluster, group)
    leader, other = (coordinator + 1) % 3, (coordinator + 2) % 3

    def topic(partitions: int) -> str:
        return new_topic(cluster, replicas=[(leader, other, coordinator)] * partitions)

    scene = Scene(cluster, command, client.codecs, topic, group, killed == "nobody")
    tried = [name for name in STEPS if name in steps and name not in client.lacks]
    stories = {name: STEPS[name](scene) for name in tried}
    failures: dict[str, str] = {}
    victim = {"leader": leader, "coordinator": coordinator}.get(killed)
    try:
        for _ in range(3):
            take_on(stories, failures)
        if victim is not None:
            cluster.kill(victim)
        take_on(stories, failures)
    finally:
        for each in scene.running:
            each.kill()
        if victim is not None and cluster.status(victim) != "running":
            cluster.start_node(victim)
            cluster.wait_until_ready()
    return Run(
        client=client.name,
        killed=killed,
        version=version,
        preset=PRESET.value,
        outcome="fail" if failures else "pass",
        seconds=round(time.monotonic() - begun_s, 1),
        codecs=tuple(client.codecs),
        steps={name: failures.get(name, PASSED) for name in tried},
        notes=tuple(dict.fromkeys(note for each in scene.running for note in each.told("note"))),
    )


def judge(run: Run) -> None:
    failures = {step: why for step, why in run.steps.items() if why != PASSED}
    assert not failures, "\n".join(f"{step}: {why}" for step, why in failures.items())


def rows() -> list[Any]:
    return [pytest.param(*row, id=f"{row[0].name}-{row[1]}") for row in ROWS]


@pytest.mark.full
@pytest.mark.parametrize(("client", "killed"), rows())
@under_preset
def test_a_stock_client_does_everything(
    brisk: Cluster, new_topic: Callable[..., str], client: Client, killed: str
) -> None:
    try:
        run = gone_through(brisk, new_topic, client, killed, tuple(STEPS))
    except ClientMissing as missing:
        why = f"stock client missing: {client.name}: {missing}"
        run = Run(
            client=client.name,
            killed=killed,
            version="",
            preset=PRESET.value,
            outcome="not here",
            notes=(str(missing),),
        )
        keep_run(run, ROW_NAMES)
        if client.is_required and os.environ.get("HIGHWATER_REQUIRE_DOCKER") == "1":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    keep_run(run, ROW_NAMES)
    judge(run)


@pytest.mark.parametrize(
    "client", [client for client in CLIENTS if client.is_quick], ids=lambda client: client.name
)
@under_preset
def test_a_stock_group_goes_on_after_its_coordinators_death(
    brisk: Cluster, new_topic: Callable[..., str], client: Client
) -> None:
    """One client's group in every run of the tests; all clients' are above."""
    judge(gone_through(brisk, new_topic, client, "coordinator", ("group",)))
