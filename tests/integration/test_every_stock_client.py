"""Every stock client, unmodified, does the same steps; also while a broker dies."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from highwater.cluster.cluster import Cluster
from highwater.waiting import eventually
from highwater_core.config import Preset
from tests.clients.steps import STEPS, Scene, take_on
from tests.clients.table import CLIENTS, KILLS, Client, ClientMissing, Made

pytestmark = pytest.mark.docker

WITHIN_S = 60.0


def made(client: Client) -> Made:
    try:
        return client.make()
    except ClientMissing as missing:
        why = f"stock client missing: {client.name}: {missing}"
        if client.is_required and os.environ.get("HIGHWATER_REQUIRE_DOCKER") == "1":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)


def coordinator_of(cluster: Cluster, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def asked() -> tuple[int]:
        (described,) = admin.describe_consumer_groups([group]).values()
        return (int(described.result(WITHIN_S).coordinator.id),)

    (found,) = eventually(asked, within=WITHIN_S, what="a coordinator", retry_on=KafkaException)
    return found


def rows() -> list[Any]:
    return [
        pytest.param(
            client,
            killed,
            id=f"{client.name}-{killed}",
            marks=() if client.is_quick and killed == "nobody" else pytest.mark.full,
        )
        for client in CLIENTS
        for killed in ("nobody", *KILLS)
    ]


@pytest.mark.parametrize(("client", "killed"), rows())
@pytest.mark.parametrize(
    "brisk", [pytest.param(Preset.FENCED, id=f"brisk-{Preset.FENCED.value}")], indirect=True
)
def test_a_stock_client_does_everything(
    brisk: Cluster, new_topic: Callable[..., str], client: Client, killed: str
) -> None:
    program = made(client)
    group = f"group-of-{client.name}-{killed}"
    coordinator = coordinator_of(brisk, group)
    leader, other = (coordinator + 1) % 3, (coordinator + 2) % 3

    def topic(partitions: int) -> str:
        return new_topic(brisk, replicas=[(leader, other, coordinator)] * partitions)

    scene = Scene(brisk, program.command, client.codecs, topic, group, killed == "nobody")
    stories = {name: step(scene) for name, step in STEPS.items() if name not in client.lacks}
    failures: dict[str, str] = {}
    victim = {"leader": leader, "coordinator": coordinator}.get(killed)
    try:
        for _ in range(3):
            take_on(stories, failures)
        if victim is not None:
            brisk.kill(victim)
        take_on(stories, failures)
    finally:
        for each in scene.running:
            each.kill()
        if victim is not None and brisk.status(victim) != "running":
            brisk.start_node(victim)
            brisk.wait_until_ready()
    assert not failures, "\n".join(f"{step}: {why}" for step, why in failures.items())
