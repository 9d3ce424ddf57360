"""Clients at full load, clients that leave at the wrong moment, clients with excessive requests.

`python -m bench.hostile` runs the same clients for an hour.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from bench.hostile import greedy, leaving
from bench.hostile.honest import FullLoad, audit
from bench.hostile.scene import PARTITIONS, TOPIC, brought_up
from bench.hostile.target import target_of
from bench.hostile.troop import DEEDS, Troop
from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_full_isr, await_replicated, leaders_of, look_at
from highwater.cluster.topics import create_topic
from highwater.cluster.topology import Topology
from highwater.run_folder import new_run_id
from highwater.waiting import eventually
from highwater_core.ids import TopicPartition
from tests.support.clusters import whole_look

pytestmark = pytest.mark.docker

Guard = Callable[[Cluster], AbstractContextManager[None]]

TIMES, WITHIN_S = 2, 180.0
HONEST = "honest"
MAY_GROW_MIB = 64.0


def deeds_of(module: object) -> list[str]:
    return [name for name, deed in DEEDS.items() if deed.__module__ == module.__name__]  # type: ignore[attr-defined]


@pytest.mark.parametrize("module", [leaving, greedy], ids=["leaving", "greedy"])
def test_whatever_clients_do_every_node_lives_and_nothing_acknowledged_is_lost(
    module: object, nobody_restarts: Guard
) -> None:
    deeds = {name: DEEDS[name] for name in deeds_of(module)}
    with brought_up(lambda text: None) as scene:
        cluster = scene.cluster
        create_topic(cluster, HONEST, config={"min.insync.replicas": "2"})
        before = scene.resident_mib()
        with nobody_restarts(cluster):
            load = FullLoad(cluster.bootstrap, HONEST, 1, producers=1, max_megabytes_per_s=2.0)
            troop = Troop(scene.target, deeds, seed=1, threads=2, pause_s=0.01)
            load.start()
            troop.start()
            eventually(
                lambda: troop.trouble or min(troop.done.values()) >= TIMES,
                within=WITHIN_S,
                what=f"each deed done {TIMES} times",
                state=lambda: f"{troop.done}\n{troop.failed}\n{cluster.describe()}",
            )
            troop.stop()
            load.stop()
            await_replicated(cluster, HONEST)
            await_replicated(cluster, TOPIC, PARTITIONS)
        found = audit(cluster.bootstrap, HONEST, load)
        assert found.looked_up > 0
        assert (found.lost, load.failures) == (0, {}), found.examples
        grown = [
            (now or 1e9) - (then or 0.0)
            for then, now in zip(before, scene.resident_mib(), strict=True)
        ]
        assert max(grown) < MAY_GROW_MIB, (before, grown)


@pytest.mark.parametrize("producers", [pytest.param(2, marks=pytest.mark.full), 64])
def test_a_leader_paused_under_full_load_loses_nothing(producers: int) -> None:
    """Consumers come and go meanwhile; at the pause's end all their requests are answered."""
    partitions = 3
    topology = Topology(session_timeout_ms=2_000)
    with Cluster(topology, new_run_id("test")) as cluster:
        cluster.start()
        create_topic(
            cluster, HONEST, partition_count=partitions, config={"min.insync.replicas": "2"}
        )
        leader = leaders_of(whole_look(cluster), HONEST)[TopicPartition(HONEST, 0)].leader
        load = FullLoad(cluster.bootstrap, HONEST, partitions, producers=producers)
        readers = {name: DEEDS[name] for name in ("leave_pipelined_fetches", "consume_and_leave")}
        troop = Troop(target_of(cluster, HONEST, partitions), readers, 1, threads=2, pause_s=0.05)
        load.start()
        _await_more(cluster, load)
        troop.start()
        cluster.pause(leader)
        assert cluster.status(leader) == "paused"
        _await_other_leader(cluster, leader, partitions)
        _await_more(cluster, load)
        cluster.unpause(leader)
        _await_more(cluster, load)
        troop.stop()
        load.stop()
        await_full_isr(cluster, HONEST, partitions, within=WITHIN_S)
        await_replicated(cluster, HONEST, partitions, within=WITHIN_S)
        found = audit(cluster.bootstrap, HONEST, load)
        assert found.looked_up == load.acknowledged
        assert found.lost == 0, found.examples
        assert {cluster.status(node) for node in cluster.node_ids} == {"running"}


def _await_more(cluster: Cluster, load: FullLoad, count: int = 5_000) -> None:
    goal = load.acknowledged + count
    eventually(
        lambda: load.acknowledged >= goal,
        within=WITHIN_S,
        what=f"{count} more acknowledged records",
        state=lambda: f"{load.acknowledged} of {goal}, {load.failures}\n{cluster.describe()}",
    )


def _await_other_leader(cluster: Cluster, paused: int, partitions: int) -> None:
    def moved() -> bool:
        led = leaders_of(look_at(cluster), HONEST).values()  # of those that answer
        return len(led) == partitions and all(int(each.leader) != paused for each in led)

    eventually(moved, within=WITHIN_S, what=f"leaders other than {paused}", state=cluster.describe)
