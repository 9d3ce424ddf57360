"""Faults on links, with perfect helpers: their calls, their order, their proofs."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from highwater.faults.links.acting import LinkFault, LinkFaults, NotProven, _Request
from highwater.faults.links.asked import Asked, State
from highwater.faults.links.in_namespace import CANARY_PORT
from highwater.faults.links.namespaces import NotInNamespace, Report, Task
from highwater.faults.links.rules import ALL_PORTS, ALWAYS, NO_RULES, Direction, Drop, Lose, Slow
from highwater.waiting import eventually

ADDRESSES = {"10.0.0.10": 0, "10.0.0.11": 1, "10.0.0.12": 2}
CLIENTS = "10.0.9.1"


class PerfectNamespaces:
    """Helpers that start at once, in a kernel that obeys the rules.

    drops_nothing: it does not. starts: how often each node was started.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.tasks: list[dict[int, Task]] = []
        self.rules: dict[int, str] = {}
        self.queues: dict[str, int] = {}
        self.held_ns: dict[int, int] = {}
        self.starts: Counter[int] = Counter()
        self.drops_nothing = False
        self.all_begun = 0

    def run(self, tasks: Mapping[int, Task]) -> dict[int, Report]:
        if not tasks:
            return {}
        self.tasks.append(dict(tasks))
        begin_ns, end_ns = self.now_ns, max(task.until_ns for task in tasks.values())
        sent = {
            str(each["name"]): tuple(range(begin_ns, end_ns, task.every_ns))
            for task in tasks.values()
            for each in task.send
        }
        reports = {}
        for node, task in tasks.items():
            came = self._came(node, task, sent)
            received = {name: tuple(at_ns for at_ns, _ in pairs) for name, pairs in came.items()}
            arrived = {name: tuple(at_ns for _, at_ns in pairs) for name, pairs in came.items()}
            told_ns = None if task.queue is None else task.apply_at_ns
            reports[node] = Report(
                begin_ns, end_ns, task.apply_at_ns, "", sent, received, arrived, None, told_ns
            )
        self.now_ns = end_ns
        return reports

    def _came(
        self, node: int, task: Task, sent: Mapping[str, tuple[int, ...]]
    ) -> dict[str, list[tuple[int, int]]]:
        """Return when canaries to the node were sent and arrived."""
        rules, held_ns = self.rules.get(node, NO_RULES), self.held_ns.get(node, 0)
        if task.script is not None:
            self.rules[node] = task.script
        if task.queue is not None:
            self.held_ns[node] = int(str(task.queue[-1]["latency_ns"])) if task.queue else 0
        came: dict[str, list[tuple[int, int]]] = {}
        for name, times in sent.items():
            source, _, to = name.partition(">")
            if not to.startswith(f"{node}:"):
                continue
            for at_ns in times:
                is_before = at_ns < task.apply_at_ns
                drops = _drops(rules if is_before else self.rules[node], source, to)
                late_ns = held_ns if is_before else self.held_ns.get(node, 0)
                if self.drops_nothing or not drops:
                    came.setdefault(name, []).append((at_ns, at_ns + late_ns))
        return came

    def begin(self, node: int, program: str) -> str:
        self.all_begun += 1
        self.queues[f"{program}-{self.all_begun}"] = node
        return f"{program}-{self.all_begun}"

    def end(self, container: str) -> None:
        del self.queues[container]

    def is_running(self, container: str) -> bool:
        return container in self.queues

    def incarnation(self, node: int) -> str:
        return str(self.starts[node])


def _drops(script: str, source: str, to: str) -> bool:
    """Return whether the script drops a canary from there; to: its name from the target on."""
    lost = "".join(line for line in script.splitlines() if "element inet highwater lose_" in line)
    port = to.rpartition(":")[2]
    return f"{source} . {port} timeout" in lost or f"{source} timeout" in lost


def make(
    up: list[int], pause: Callable[[float], None] = lambda pause_s: None
) -> tuple[PerfectNamespaces, LinkFaults]:
    namespaces: Any = PerfectNamespaces()
    links = LinkFaults(
        namespaces,
        ADDRESSES,
        clock_ns=lambda: namespaces.now_ns,
        is_up=lambda node: node in up,
        pause=pause,
    )
    return namespaces, links


def around(node: int) -> LinkFault:
    address = {at: name for name, at in ADDRESSES.items()}
    others = [each for each in ADDRESSES.values() if each != node]
    directions = [Direction(address[each], node, ALL_PORTS) for each in others]
    directions += [Direction(address[node], each, ALL_PORTS) for each in others]
    directions += [Direction(CLIENTS, node, 9094, way) for way in (False, True)]
    return LinkFault("1", tuple(directions), Lose(ALWAYS), None)


def test_a_node_that_is_down_gets_no_rules_and_sends_no_canaries_until_it_starts() -> None:
    up = [0, 1]
    namespaces, links = make(up)
    proof = links.apply(around(1))
    assert {node for tasks in namespaces.tasks for node in tasks} == {0, 1}
    assert [(each.name, each.received) for each in proof.after] == [
        ("10.0.0.10>1:to:0", 0), ("10.0.0.11>0:to:0", 0),
    ]  # fmt: skip
    assert proof.unmeasured == 4
    assert "4 directions without canaries" in str(proof)
    up.append(2)
    assert links.tell_again(2)
    assert "10.0.0.11" in namespaces.rules[2]


def test_directions_from_and_to_outside_have_rules_and_no_canaries() -> None:
    namespaces, links = make([0, 1, 2])
    links.apply(around(1))
    assert f"{CLIENTS} . 9094" in namespaces.rules[1]
    assert CLIENTS not in namespaces.rules[0]
    ports = {port for tasks in namespaces.tasks for task in tasks.values() for port in task.ports}
    assert ports == {CANARY_PORT}


def test_while_a_node_is_cut_off_healed_links_of_its_are_not_expected_to_pass() -> None:
    _, links = make([0, 1, 2])
    links.apply(LinkFault("0", (Direction("10.0.0.10", 1, 9093),), Lose(ALWAYS), None))
    links.apply(around(1))
    healed = links.heal("0")
    assert healed is not None
    assert {each.asked.lost_percent for each in healed.after} == {ALWAYS}


def test_where_nobody_runs_nothing_is_asked_of_anybody_and_nothing_is_proven() -> None:
    namespaces, links = make([])
    with pytest.raises(NotProven, match="6 directions"):
        links.apply(around(1))
    links.renew()
    assert namespaces.tasks == []


@pytest.mark.parametrize(
    ("up", "is_proven"),
    [([0, 1], True), ([1], False), ([0], False)],
    ids=["both ends run", "the source is down", "the target is down"],
)
def test_a_fault_along_whose_directions_no_canary_goes_is_not_proven_and_can_be_healed(
    up: list[int], *, is_proven: bool
) -> None:
    namespaces, links = make(up)
    if is_proven:
        assert links.apply(cut("1", 1)).unmeasured == 0
    else:
        with pytest.raises(NotProven, match="no canary goes along any of 1 directions"):
            links.apply(cut("1", 1))
    assert [fault.name for fault in links.active] == ["1"]
    healed = links.heal("1")
    assert healed is not None
    assert healed.unmeasured == (not is_proven)
    assert links.active == ()
    assert set(namespaces.rules.values()) <= {NO_RULES}


# ---------------------------------------------------------------- proofs


def cut(name: str, target: int, for_ns: int | None = None) -> LinkFault:
    return LinkFault(name, (Direction("10.0.0.10", target, 9093),), Lose(ALWAYS), for_ns)


def slow(name: str, latency_ms: int, for_ns: int | None = None) -> LinkFault:
    return LinkFault(name, (Direction("10.0.0.10", 1, 9093),), Slow(latency_ms), for_ns)


def test_a_fault_that_the_kernel_does_not_do_is_not_proven_and_stays_to_be_healed() -> None:
    namespaces, links = make([0, 1, 2])
    namespaces.drops_nothing = True
    with pytest.raises(NotProven, match=r"0 % of .* lost, not 100 %"):
        links.apply(cut("1", 1))
    assert [fault.name for fault in links.active] == ["1"]


def test_a_cut_that_is_over_when_canaries_look_is_not_proven() -> None:
    """Its first look has too few canaries, the second comes when nothing is asked any more."""
    _, links = make([0, 1, 2])
    with pytest.raises(NotProven, match="it was over before"):
        links.apply(cut("1", 1, for_ns=20_000_000))


def test_a_fault_that_ended_before_it_was_healed_shows_in_canaries_before_that() -> None:
    namespaces, links = make([0, 1, 2])
    links.apply(cut("1", 1))
    namespaces.rules[1] = NO_RULES
    with pytest.raises(NotProven, match=r"before: .*0 % of .* lost, not 100 %"):
        links.heal("1")


def test_a_started_node_is_not_expected_to_have_rules_until_it_gets_them() -> None:
    namespaces, links = make([0, 1, 2])
    links.apply(cut("1", 1))
    namespaces.rules[1] = NO_RULES
    namespaces.starts[1] += 1
    healed = links.heal("1")
    assert healed is not None
    assert {each.asked.lost_percent for each in healed.before} == {0}


def test_it_is_known_whether_anything_acts_on_a_link_now() -> None:
    namespaces, links = make([0, 1, 2])
    link, other = Direction("10.0.0.10", 1, 9093), Direction("10.0.0.10", 2, 9093)
    links.apply(slow("1", 100))
    links.apply(cut("2", 1, for_ns=60 * 10**9))
    assert links.heal("1") is not None
    assert (links.acts_on([other, link]), links.acts_on([other])) == (True, False)
    namespaces.now_ns += 60 * 10**9
    assert not links.acts_on([link])


# ---------------------------------------------------------------- held packets


def test_a_queue_begins_where_a_link_is_slow_and_ends_when_none_is() -> None:
    namespaces, links = make([0, 1, 2])
    proof = links.apply(slow("1", 100))
    assert "100.0 ms late at the median (asked 100)" in str(proof)
    links.apply(cut("2", 2))
    assert list(namespaces.queues.values()) == [1]
    healed = str(links.heal("1"))
    assert "(before: 0 % of" in healed
    assert "100.0 ms late at the median (asked 100))" in healed
    assert namespaces.queues == {}
    assert namespaces.tasks[-1][1].queue == []


def test_one_queue_serves_all_of_a_node_and_a_node_that_was_started_gets_another() -> None:
    namespaces, links = make([0, 1, 2])
    links.apply(slow("1", 100))
    links.apply(slow("2", 100, for_ns=10**9))
    assert namespaces.all_begun == 1
    namespaces.starts[1] += 1
    assert links.tell_again(1)
    assert namespaces.all_begun == 2
    assert len(namespaces.queues) == 1
    links.end()
    assert namespaces.queues == {}


def test_a_latency_that_nobody_holds_is_not_proven() -> None:
    namespaces, links = make([0, 1, 2])
    namespaces.held_ns = _Forgetful()
    with pytest.raises(NotProven, match="arrived before 100 ms"):
        links.apply(slow("1", 100))


@pytest.mark.parametrize("latency_ms", [100, 400, 2_000])
def test_a_latency_that_was_lost_meanwhile_shows_at_its_end_however_soon_helpers_start(
    latency_ms: int,
) -> None:
    """Early canaries prove it only once a held canary could have arrived."""
    namespaces, links = make([0, 1, 2])
    links.apply(slow("1", latency_ms))
    namespaces.held_ns.clear()
    with pytest.raises(NotProven, match=f"before: .* arrived before {latency_ms} ms"):
        links.heal("1")


class _Forgetful(dict[int, int]):
    def __setitem__(self, node: int, held_ns: int) -> None:
        super().__setitem__(node, 0)


# ---------------------------------------------------------------- together


def test_faults_of_the_same_moment_are_one_change_with_a_proof_each() -> None:
    proofs: dict[str, object] = {}

    def second() -> None:
        proofs["2"] = links.apply(cut("2", 2))

    other = threading.Thread(target=second)

    def let_the_other_ask(pause_s: float) -> None:
        if not other.is_alive():
            other.start()
            eventually(lambda: len(links._together.waiting) == 2, within=5, what="both have asked")

    namespaces, links = make([0, 1, 2], let_the_other_ask)
    proofs["1"] = links.apply(cut("1", 1))
    other.join()
    (tasks,) = namespaces.tasks
    assert {node for node, task in tasks.items() if task.script is not None} == {1, 2}
    assert {name: "10.0.0.10>" + name in str(proof) for name, proof in proofs.items()} == {
        "1": True, "2": True,
    }  # fmt: skip
    assert "10.0.0.10>2" not in str(proofs["1"])


def test_of_faults_that_are_asked_for_together_one_that_fails_does_not_take_the_others_along() -> (
    None
):
    namespaces, links = make([0, 1, 2])
    works = namespaces.run

    def fails_at_2(tasks: Mapping[int, Task]) -> dict[int, Report]:
        if 2 in tasks:
            raise NotInNamespace("broker-2: it went away")
        return works(tasks)

    namespaces.run = fails_at_2  # type: ignore[method-assign]
    requests = [_Request(cut("1", 1), heals=False), _Request(cut("2", 2), heals=False)]
    links._do_together(requests)
    assert isinstance(requests[1].outcome, NotInNamespace)
    assert "100 % of" in str(requests[0].outcome)
    assert [fault.name for fault in links.active] == ["1"]


def test_a_fault_is_healed_though_its_node_goes_down_while_the_helpers_begin() -> None:
    up = [0, 1, 2]
    namespaces, links = make(up)
    links.apply(cut("1", 1))
    works = namespaces.run

    def is_killed_in_the_middle(tasks: Mapping[int, Task]) -> dict[int, Report]:
        if 1 in up and 1 in tasks:
            up.remove(1)
        if not set(tasks) <= set(up):
            raise NotInNamespace("broker-1: cannot join network of a non running container")
        return works(tasks)

    namespaces.run = is_killed_in_the_middle  # type: ignore[method-assign]
    links.heal("1")
    assert (up, links.active) == ([0, 2], ())


def test_trying_out_with_queues_begins_one_at_each_node_that_runs_and_leaves_none() -> None:
    namespaces, links = make([0, 2])
    links.try_out()
    assert namespaces.all_begun == 0
    links.try_out(with_queues=True)
    assert namespaces.all_begun == 2
    assert namespaces.queues == {}
    assert all(task.queue for task in namespaces.tasks[-1].values())


class OneHelperIsLate(PerfectNamespaces):
    """Node 2's first helper is; rules act from when each node loads them, as long as they say.

    nft runs for loads_ns, and the kernel takes the rules taken_ns after its start.
    """

    LATE_NS = 1_000_000_000

    def __init__(self, loads_ns: int = 0, taken_ns: int = 0) -> None:
        super().__init__()
        self.loads_ns, self.taken_ns = loads_ns, taken_ns
        self.acts_ns: dict[int, tuple[int, int]] = {}

    def run(self, tasks: Mapping[int, Task]) -> dict[int, Report]:
        is_first = not self.tasks
        reports = super().run(tasks)
        for node, task in tasks.items():
            late_ns = self.LATE_NS if is_first and node == 2 else 0
            report = reports[node]
            if task.script is not None:
                (timeout_ms,) = set(re.findall(r"timeout (\d+)ms", task.script))
                loading_ns = task.apply_at_ns + late_ns
                from_ns = loading_ns + self.taken_ns
                self.acts_ns[node] = from_ns, from_ns + int(timeout_ms) * 1_000_000
                report = msgspec.structs.replace(
                    report, loading_ns=loading_ns, applied_ns=loading_ns + self.loads_ns
                )
                self.now_ns = max(self.now_ns, report.closed_ns + late_ns)
            from_ns, to_ns = self.acts_ns[node]
            came = {
                name: tuple(at for at in times if not from_ns <= at < to_ns)
                for name, times in report.sent.items()
                if name.partition(">")[2].startswith(f"{node}:")
            }
            reports[node] = msgspec.structs.replace(
                report,
                opened_ns=report.opened_ns + late_ns,
                closed_ns=report.closed_ns + late_ns,
                received=came,
                arrived=came,
            )
        return reports


@pytest.mark.parametrize(("loads_ms", "taken_ms"), [(0, 0), (90, 0), (90, 90)])
def test_each_nodes_rules_end_when_they_do_and_not_when_those_of_the_last_one_do(
    loads_ms: int, taken_ms: int
) -> None:
    namespaces: Any = OneHelperIsLate(loads_ms * 1_000_000, taken_ms * 1_000_000)
    links = LinkFaults(
        namespaces, ADDRESSES, clock_ns=lambda: namespaces.now_ns, pause=lambda pause_s: None
    )
    around_one = around(1)
    directions = tuple(each for each in around_one.directions if each.source != CLIENTS)
    proof = links.apply(LinkFault("1", directions, Lose(ALWAYS), 2_000_000_000))
    assert len(namespaces.tasks) == 2  # looked at once more, until the first rules had ended
    assert namespaces.now_ns > min(end_ns for _, end_ns in namespaces.acts_ns.values())
    assert [each.received for each in proof.after] == [0, 0, 0, 0]


def test_between_the_earliest_and_the_latest_end_of_a_loss_nothing_is_asked_of_packets() -> None:
    at = Direction("10.0.0.10", 1, 9093)
    state = State([Drop(at, ALWAYS, until_ns=100, gone_ns=150)])
    assert state.asked_of(at, state.sure_from(at, 99)) == (Asked(ALWAYS), 100)
    assert state.sure_from(at, 100) == state.sure_from(at, 149) == 150
    assert state.sure_from(at, 150) == 150
    assert state.asked_of(at, 150)[0] == Asked()
