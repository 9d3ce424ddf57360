"""A cut from clients is proven by a client: answers before, none during, answers after."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import pytest

from highwater.cluster.topology import ZOOKEEPER, NodeKind
from highwater.faults.done import Done, NotDone
from highwater.faults.links import client_proof
from highwater.faults.links import of_cluster as cluster_links
from highwater.faults.links.acting import LinkFault
from highwater.faults.links.client_proof import AskedBroker, cut_from_clients
from highwater.faults.links.of_cluster import ClusterLinks
from highwater.faults.links.seen import Proof
from highwater.faults.links.words import CLIENTS, apart_from_clients, around, directions_of
from highwater.waiting import NeverHappened
from highwater_chaos import faults as f

ADDRESSES = {0: "10.0.0.10", 1: "10.0.0.11", 1000: "10.0.0.20", ZOOKEEPER: "10.0.0.2"}
ADDRESSES |= {CLIENTS: "10.0.0.1"}
BY_NAME = {"broker-0": 0, "broker-1": 1}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_proof, "ANSWERS_BEFORE_WITHIN_S", 0.02)
    monkeypatch.setattr(client_proof, "ANSWERS_AGAIN_WITHIN_S", 0.02)


class Brokers:
    """Brokers whom clients reach unless they are cut off; the others are never, or always."""

    def __init__(self, never: Collection[int] = (), always: Collection[int] = ()) -> None:
        self.is_cut = False
        self.stays_cut = False
        self.steps: list[str] = []
        self._never = never
        self._always = always

    def answers(self, broker: int) -> bool:
        return broker not in self._never and (broker in self._always or not self.is_cut)

    def asked(self, broker: int, why_not: str = "", *, harness: bool = True) -> AskedBroker:
        return AskedBroker(
            f"broker {broker}", lambda: self.answers(broker), lambda: why_not, lambda: harness
        )

    def cut(self) -> Done:
        self.is_cut = True
        self.steps.append("cut")
        return Done(None, "canaries", self.back, time.monotonic_ns())

    def back(self) -> str:
        self.is_cut = self.stays_cut
        self.steps.append("back")
        return "healed"


def test_a_client_is_answered_before_and_after_and_not_while_it_acts() -> None:
    brokers = Brokers()
    done = cut_from_clients([brokers.asked(0), brokers.asked(1)], None, brokers.cut)
    assert done.proof.startswith("canaries; ")
    for name in ("broker 0", "broker 1"):
        assert f"requests of a client to {name}, no answer" in done.proof
    assert (
        done.revert() == "healed; broker 0 answers a client again; broker 1 answers a client again"
    )


@pytest.mark.parametrize(
    ("brokers", "says", "steps"),
    [
        (Brokers(never=[1]), "clients cannot reach broker 1 anyway", []),
        (Brokers(always=[1]), "requests of a client to broker 1 were answered", ["cut", "back"]),
    ],
    ids=["unreachable before", "answered while it acts"],
)
def test_a_fault_that_a_client_does_not_notice_is_not_done_and_is_undone(
    brokers: Brokers, says: str, steps: list[str]
) -> None:
    with pytest.raises(NotDone, match=says):
        cut_from_clients([brokers.asked(0), brokers.asked(1)], None, brokers.cut)
    assert brokers.steps == steps


def test_a_client_that_is_never_answered_again_shows_that_it_was_not_taken_back() -> None:
    brokers = Brokers()
    done = cut_from_clients([brokers.asked(0)], None, brokers.cut)
    brokers.stays_cut = True
    with pytest.raises(NeverHappened, match="broker 0 answers a client again"):
        done.revert()


@pytest.mark.parametrize(
    ("why_not", "harness", "says"),
    [
        ("broker 0 is paused", True, "healed; broker 0 is paused"),
        ("", False, "healed; broker 0 answers neither clients nor the harness"),
    ],
)
def test_a_broker_that_something_else_keeps_silent_need_not_answer_again(
    why_not: str, harness: bool, says: str
) -> None:
    brokers = Brokers()
    done = cut_from_clients([brokers.asked(0, why_not, harness=harness)], None, brokers.cut)
    brokers.stays_cut = True
    assert done.revert() == says


# ---------------------------------------------------------------- which brokers


@pytest.mark.parametrize(
    ("fault", "apart"),
    [
        (f.Cut("any", "broker-1", "client"), {1}),
        (f.Cut("broker-1", "any", "client"), {1}),
        (f.Cut("any", "any", "client"), {0, 1, 1000}),
        (f.Cut("broker-0", "broker-1", "client", both_ways=True), set()),
        (f.Cut("any", "broker-1", "replication"), set()),
        (f.Isolate("broker-1"), {1}),
    ],
    ids=str,
)
def test_who_is_apart_from_clients(fault: f.Cut | f.Isolate, apart: set[int]) -> None:
    if isinstance(fault, f.Cut):
        directions = directions_of(fault, BY_NAME.get, ADDRESSES)
    else:
        directions = around(fault, BY_NAME.get, ADDRESSES)
    assert set(apart_from_clients(directions, ADDRESSES)) == apart


class FakeLinks:
    """Links that are cut and proven at once; others: whether another fault acts on them."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.others = False

    def apply(self, fault: LinkFault) -> Proof:
        self.brokers.cut()
        return Proof(time.monotonic_ns(), unmeasured=1)

    def heal(self, name: str) -> Proof:
        self.brokers.back()
        return Proof(time.monotonic_ns(), unmeasured=1)

    def acts_on(self, directions: object) -> bool:
        return self.others


class FakeCluster:
    """Two brokers and a controller: status by node."""

    def __init__(self) -> None:
        self.of = {0: "running", 1: "running", 1000: "running", ZOOKEEPER: "running"}
        self.topology = self

    def node(self, node: int) -> Any:
        return type("Spec", (), {"kind": NodeKind.BROKER if node < 1000 else NodeKind.CONTROLLER})

    def status(self, node: int) -> str:
        return self.of[node]

    def external_endpoint(self, broker: int) -> int:
        return broker

    def try_snapshot(self, node: int, *, timeout_s: float) -> object:
        return node


class OneCluster(ClusterLinks):
    def __init__(self, cluster: Any, links: Any) -> None:
        self._cluster = cluster
        self._fake = links

    def get_ready(self, *, with_queues: bool = False) -> Any:
        return self._fake

    def _addresses(self) -> dict[int, str]:
        return ADDRESSES


EVERYBODY = f.Cut("any", "any", "client")


@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        (EVERYBODY, ("broker 0", "broker 1")),
        (f.Cut("any", "broker-1", "client"), ("broker 1",)),
        (f.Isolate("broker-0"), ("broker 0",)),
        (f.Cut("any", "broker-1", "control"), ()),
    ],
    ids=str,
)
def test_each_running_broker_that_is_cut_off_is_asked(
    fault: f.Cut | f.Isolate, asked: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers, cluster = Brokers(), FakeCluster()
    monkeypatch.setattr(cluster_links, "asks", brokers.answers)
    links = OneCluster(cluster, FakeLinks(brokers))
    done = _begin(links, fault)
    seen = done.revert()
    for name in ("broker 0", "broker 1"):
        assert (f"client to {name}, no answer" in done.proof) is (name in asked)
        assert (f"{name} answers a client again" in seen) is (name in asked)


def test_a_paused_broker_is_not_asked_and_one_that_another_fault_cuts_off_need_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers, cluster = Brokers(), FakeCluster()
    cluster.of[1] = "paused"
    monkeypatch.setattr(cluster_links, "asks", brokers.answers)
    fakes = FakeLinks(brokers)
    done = _begin(OneCluster(cluster, fakes), EVERYBODY)
    assert "broker 1" not in done.proof
    fakes.others = brokers.stays_cut = True
    assert "broker 0: another fault acts on its links with clients still" in done.revert()


def test_a_cut_of_a_broker_that_clients_cannot_reach_is_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_links, "asks", lambda endpoint: False)
    brokers = Brokers()
    links = OneCluster(FakeCluster(), FakeLinks(brokers))
    for fault in (EVERYBODY, f.Isolate("broker-0")):
        with pytest.raises(NotDone, match="anyway"):
            _begin(links, fault)
    assert brokers.steps == []


def _begin(links: ClusterLinks, fault: f.Cut | f.Isolate) -> Done:
    begin: Any = links.cut if isinstance(fault, f.Cut) else links.isolate
    done: Done = begin("1", fault, BY_NAME.get)
    return done
