"""An engine that does not answer is reported, and healing of the rest goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ReadTimeout, RequestException

from highwater.faults import on_containers
from highwater.faults.done import Done
from highwater.faults.links import namespaces
from highwater.faults.links import of_cluster as cluster_links
from highwater.faults.links.namespaces import NotInNamespace, Report, Task
from highwater.faults.links.of_cluster import ClusterLinks
from highwater.faults.links.seen import NotProven
from highwater.faults.on_containers import ContainerFaults
from highwater_chaos import faults as f

SILENT: list[RequestException] = [
    ReadTimeout("no answer within 30 s"),
    NoConnection("no such socket"),
    APIError("refused", explanation="it is down"),
]
SAYS = "no answer within 30 s|no such socket|it is down"


class Engine:
    """Raises an error at every call."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.api = self
        self.containers = self

    def create(self, *_: object, **__: object) -> Any:
        raise self.error

    inspect_container = create
    remove_container = create


CALLS: tuple[tuple[str, Callable[[namespaces.Namespaces], object]], ...] = (
    ("run", lambda spaces: spaces.run({0: Task()})),
    ("ask", lambda spaces: spaces.ask({0: Task()}, namespaces.IN_NAMESPACE, Report)),
    ("begin", lambda spaces: spaces.begin(0, namespaces.PACKET_QUEUE)),
    ("end", lambda spaces: spaces.end("helper")),
    ("is_running", lambda spaces: spaces.is_running("helper")),
    ("incarnation", lambda spaces: spaces.incarnation(0)),
)


@pytest.mark.parametrize("error", SILENT, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_an_engine_that_does_not_answer_is_a_namespace_that_was_not_reached(
    error: Exception, call: Callable[[namespaces.Namespaces], object]
) -> None:
    engine: Any = Engine(error)
    run: Any = SimpleNamespace(as_labels=lambda kind: {})
    with pytest.raises(NotInNamespace, match=SAYS):
        call(namespaces.Namespaces(engine, "image", run, {0: "broker-0"}))


@pytest.mark.parametrize("error", SILENT, ids=lambda error: type(error).__name__)
def test_an_engine_that_is_silent_about_zookeeper_ends_the_run_with_a_word(
    error: Exception,
) -> None:
    cluster: Any = SimpleNamespace(engine=Engine(error), container_name=str)
    intents: Any = SimpleNamespace()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NodeFaults", "FailPointFaults", "FullDisks", "ClusterLinks"):
            double = SimpleNamespace(may_have_ended=None, start_again=None)
            patch.setattr(on_containers, name, lambda *_, double=double: double)
        faults = ContainerFaults(cluster, intents)
    with pytest.raises(NotProven, match=SAYS):
        faults.get_ready(())


# ---------------------------------------------------------------- healing


class Parts:
    """The parts of the healing: each notes that it was tried; the one named breaks raises."""

    def __init__(self, breaks: str, error: Exception) -> None:
        self.tried: list[str] = []
        self._breaks = breaks
        self._error = error

    def part(self, name: str, returns: Any = None) -> Callable[[], Any]:
        def tries() -> Any:
            self.tried.append(name)
            if name == self._breaks:
                raise self._error
            return returns

        return tries


PARTS = (
    "renewal",
    "fault 2",
    "fault 1",
    "links",
    "points",
    "disks",
    "faulty",
    "clocks",
    "node 0",
    "node 1",
)


@pytest.mark.parametrize("error", [ReadTimeout("why"), RuntimeError("why")], ids=repr)
@pytest.mark.parametrize("breaks", PARTS)
def test_if_a_part_of_the_healing_raises_the_others_are_tried_and_it_is_reported(
    breaks: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(breaks, error)
    faults = healing(parts, monkeypatch)
    for name in ("fault 1", "fault 2"):
        faults.apply(f.Kill(name), lambda words: 0)
    problems = faults.heal_all()
    assert parts.tried == list(PARTS)
    told = {"links": "a", "points": "b", "disks": "c", "faulty": "d", "clocks": "e"}
    kept = {said for name, said in told.items() if name != breaks}
    assert kept <= set(problems)
    (problem,) = set(problems) - kept
    assert "why" in problem


def healing(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> ContainerFaults:
    part = parts.part

    def kill(fault: f.Kill, find: object) -> Done:
        return Done(0, "killed", part(fault.node, "started"))

    made = {
        "NodeFaults": SimpleNamespace(
            kill=kill,
            ways_back=lambda: (part("node 0"), part("node 1")),
            may_have_ended=lambda node: None,
            start_again=None,
        ),
        "FullDisks": SimpleNamespace(end=part("disks", ["c"])),
        "FaultyDisks": SimpleNamespace(end=part("faulty", ["d"])),
        "Clocks": SimpleNamespace(end=part("clocks", ["e"])),
        "ClusterLinks": SimpleNamespace(end=part("renewal"), heal_rest=part("links", ["a"])),
        "FailPointFaults": SimpleNamespace(end=part("points", ["b"])),
    }
    for name, made_one in made.items():
        monkeypatch.setattr(on_containers, name, lambda *_, made_one=made_one: made_one)
    numbers = iter((1, 2))
    intents: Any = SimpleNamespace(
        begin=lambda fault: next(numbers), write=lambda number, phase, **detail: None
    )
    cluster: Any = SimpleNamespace()
    return ContainerFaults(cluster, intents)


def test_a_start_of_a_node_is_written_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge reports a start that is not in the intents."""
    done: list[str] = []
    made = {
        "NodeFaults": lambda cluster, start: SimpleNamespace(
            ways_back=lambda: (partial(start, 3),), may_have_ended=None, start_again=None
        ),
        "FullDisks": lambda *_: SimpleNamespace(end=list),
        "ClusterLinks": lambda *_: SimpleNamespace(
            end=lambda: None, heal_rest=list, tell_again=lambda node: None
        ),
        "FailPointFaults": lambda *_: SimpleNamespace(end=list, before_start=lambda node: None),
    }
    for name, make in made.items():
        monkeypatch.setattr(on_containers, name, make)
    cluster: Any = SimpleNamespace(start_node=lambda node: done.append(f"start {node}"))
    intents: Any = SimpleNamespace(
        write=lambda number, phase, node: done.append(f"{number} {phase} {node}")
    )
    assert ContainerFaults(cluster, intents).heal_all() == []
    assert done == ["0 starting 3", "start 3"]


@pytest.mark.parametrize(
    "error", [NotInNamespace("why"), ReadTimeout("why"), RuntimeError("why")], ids=repr
)
def test_renewing_goes_on_and_reports_an_error_of_one_time(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_links, "RENEW_S", 0.001)
    told: list[str] = []
    twice = threading.Event()
    cluster: Any = SimpleNamespace()
    links = ClusterLinks(cluster, told.append)
    times = iter((error, error))

    def renew() -> None:
        if (each := next(times, None)) is not None:
            raise each
        twice.set()

    fakes: Any = SimpleNamespace(renew=renew)
    renewal = threading.Thread(target=links._renew, args=(fakes,))
    renewal.start()
    assert twice.wait(5.0)
    links.end()
    renewal.join(5.0)
    assert len(told) == 2
    assert all("why" in each for each in told)


def test_a_link_that_the_engine_does_not_tell_of_does_not_keep_others_from_being_healed() -> None:
    cluster: Any = SimpleNamespace()
    links = ClusterLinks(cluster, lambda why: None)
    asked: list[str] = []

    def heal(name: str) -> None:
        asked.append(name)
        raise ReadTimeout("why")

    fakes: Any = SimpleNamespace(
        active=(SimpleNamespace(name="1"), SimpleNamespace(name="2")),
        heal=heal,
        end=lambda: None,
    )
    links._links = fakes
    assert [each.endswith("why") for each in links.heal_rest()] == [True, True]
    assert asked == ["1", "2"]
