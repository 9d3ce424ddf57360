"""Fuzzes what controllers and brokers read in ZooKeeper: hostile bytes under the paths they watch.

No content ends a node. Once everything is as it was, the cluster serves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from highwater_core import znodes
from highwater_core.ports import NodeExists, NoNode, NotEmpty
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory
from tests.fuzz.cases import Broken, Case, Step
from tests.fuzz.clusters import FuzzedCluster
from tests.fuzz.draws import INT32_EDGES, Draws

STEPS = 40
BETWEEN_STEPS_MS = 30
SETTLES_WITHIN_MS = 30_000
SESSION_TIMEOUT_MS = 60_000

PATHS = (
    "/brokers/topics/orders",
    "/brokers/topics/orders/partitions/0/state",
    "/brokers/ids/0",
    "/brokers/ids/1",
    "/config/topics/orders",
    "/controller_epoch",
    "/controller",
    "/highwater/controllers/1000",
)
"""What there is, and is given other bytes."""
FOLDERS = (
    "/brokers/topics",
    "/brokers/ids",
    "/config/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/brokers/topics/orders/partitions",
    "/highwater/controllers",
)
"""Where what there is not is made."""
CHILD_NAMES = (
    "new", "7", "-1", "007", "2147483648", "a b", "..é", "%s", "isr_change_0000000001",
    "config_change_0000000001", "n" * 249, "n" * 300,
)  # fmt: skip


class ZnodesFuzzer:
    """Writes of a stranger's, some of a right form with edge numbers in it."""

    name = "znodes"

    def draw(self, draws: Draws) -> Case:
        steps = []
        for _ in range(STEPS):
            if draws.chance(5):
                steps.append(Step(f"restart {draws.below(3)}"))
            elif draws.chance(65):
                path = draws.one_of(PATHS)
                steps.append(Step(f"set {path}", _content(draws, path)))
            else:
                folder = draws.one_of(FOLDERS)
                path = f"{folder}/{draws.one_of(CHILD_NAMES)}"
                steps.append(Step(f"create {path}", _content(draws, draws.one_of(PATHS))))
        return tuple(steps)

    def run(self, case: Case) -> None:
        _Run(case).run()

    def simpler(self, step: Step) -> Iterator[Step]:
        if step.payload and not step.label.startswith("restart"):
            yield Step(step.label)


# ---------------------------------------------------------------- contents

_FORMS: dict[str, Any] = {
    "/brokers/topics/orders": {
        "version": 3,
        "partitions": {"0": [0, 1, 2]},
        "adding_replicas": {},
        "removing_replicas": {},
        "topic_id": "a" * 32,
    },
    "/brokers/topics/orders/partitions/0/state": {
        "version": 1,
        "leader": 0,
        "leader_epoch": 0,
        "controller_epoch": 1,
        "isr": [0, 1, 2],
        "elr": [1],
        "leader_broker_epoch": 5,
        "storage_ids": {"0": "x"},
    },
    "/brokers/ids/0": {
        "version": 4,
        "host": "broker-0",
        "port": 9092,
        "timestamp": "1",
        "endpoints": [
            "CLIENT://broker-0:9092",
            "EXTERNAL://broker-0:9094",
            "REPLICATION://broker-0:9093",
            "CONTROL://broker-0:9095",
        ],
        "listener_security_protocol_map": {"CLIENT": "PLAINTEXT"},
    },
    "/config/topics/orders": {
        "version": 1,
        "config": {"retention.ms": "1", "max.message.bytes": "1000", "min.insync.replicas": "2"},
    },
    "/controller": {"version": 1, "brokerid": 1_000, "timestamp": "1"},
    "/highwater/controllers/1000": {"version": 1, "host": "controller-1000", "port": 9095},
}
_WORDS = (
    "", "0", "-1", "x", "9" * 30, "true", "orders", "topics/orders", "CLIENT://h:0", "x" * 9_000,
    "é", "\u0000", "a/b", "..",
)  # fmt: skip


def _content(draws: Draws, path: str) -> bytes:
    kind = draws.below(10)
    if kind == 0:
        return draws.one_of((b"", b"{}", b"[]", b"null", b"\xff\xfe", b"-1", b"9" * 40))
    form = _FORMS.get(path)
    if path == znodes.CONTROLLER_EPOCH or form is None:
        # A sound epoch that goes down again when it is repaired is beyond what anyone can mend.
        return draws.one_of((b"x", b"-1", b"2147483647", b"9" * 40, b" 7", b"1.0", "٣".encode()))
    content = json.dumps(_forged(draws, form)).encode()
    return draws.damaged(content) if kind < 3 else content


def _forged(draws: Draws, form: Any) -> Any:
    """Return the JSON with some values replaced by others, mostly of the same type."""
    if isinstance(form, dict):
        return {key: _forged(draws, value) for key, value in form.items() if draws.chance(97)}
    if isinstance(form, list):
        kept = [_forged(draws, value) for value in form]
        return kept * draws.one_of((1, 1, 1, 0, 2, 50)) if draws.chance(30) else kept
    if draws.chance(65):
        return form
    if draws.chance(5):
        return draws.one_of((None, [], {}, 1.5, True, 2**70))
    return draws.one_of(INT32_EDGES) if isinstance(form, int) else draws.one_of(_WORDS)


# ---------------------------------------------------------------- a run


class _Run:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._cluster = FuzzedCluster()
        self._before: dict[str, bytes] = {}
        self._created: list[str] = []

    def run(self) -> None:
        self._cluster.run(self._story)

    async def _story(self) -> None:
        world = self._cluster.world
        runtime = world.kernel.runtime("stranger")
        self._session = await SimulatedCoordinationFactory(world.zookeeper, runtime).open(
            SESSION_TIMEOUT_MS
        )
        for step in self._case:
            action, path = step.label.split(" ", 1)
            if action == "restart":
                world.kill(int(path))
                world.start(int(path))
            else:
                await (self._set if action == "set" else self._create)(path, step.payload)
            await world.sleep(BETWEEN_STEPS_MS)
            self._cluster.check_alive()
        await world.sleep(1_000)
        await self._repair()
        await world.sleep(SETTLES_WITHIN_MS)
        self._cluster.check_alive()
        if world.active_controller() is None:
            raise Broken("the cluster goes on once znodes are repaired", "no active controller")
        await self._cluster.check_serves()

    async def _set(self, path: str, data: bytes) -> None:
        try:
            before, _ = await self._session.get(path)
            await self._session.set(path, data)
        except NoNode:
            return
        self._before.setdefault(path, before)

    async def _create(self, path: str, data: bytes) -> None:
        try:
            await self._session.create(path, data)
        except (NodeExists, NoNode):
            return
        self._created.append(path)

    async def _repair(self) -> None:
        """Put every znode back, the newest first."""
        for path in reversed(self._created):
            await self._delete(path)
        for path, data in self._before.items():
            try:
                await self._session.set(path, data)
            except NoNode:
                continue

    async def _delete(self, path: str) -> None:
        for _ in range(5):
            try:
                for child in await self._session.children(path):
                    await self._delete(f"{path}/{child}")
                await self._session.delete(path)
            except NotEmpty:
                continue
            except NoNode:
                return
            return
