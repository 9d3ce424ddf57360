"""Faults on links between nodes: rules where packets arrive, proven by canaries.

The kernel ends each rule by itself at its time. The rules of a fault without end are leased, and
renewed. A node always gets the rules of all its active faults at once, so that faults compose and
heal one by one. Faults that several threads begin or heal at the same moment are one change.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from highwater.faults.links.asked import LATE_NS, Asked, State
from highwater.faults.links.namespaces import Namespaces, NotInNamespace, Report, Task
from highwater.faults.links.node_change import NodeChange, node_change
from highwater.faults.links.packet_queues import PacketQueues
from highwater.faults.links.rules import (
    NO_RULES,
    Direction,
    Drop,
    Hold,
    Lose,
    Narrow,
    Slow,
    canaries_of,
    script,
)
from highwater.faults.links.seen import NotProven as NotProven
from highwater.faults.links.seen import Proof, is_as_asked, prove_links
from highwater.faults.links.watch import NEVER_NS as NEVER_NS
from highwater.faults.links.watch import OUTSIDE, LinkWatch
from highwater.faults.together import TOGETHER_S, Together

LEASE_NS = 30_000_000_000
"""How long the rules of a fault without end last if nobody renews them."""
RENEW_S = 8.0
LEAST_LEAD_NS = 600_000_000
"""The least time from a call until the rules are loaded: helpers start, and canaries are sent."""
LEAD_PER_START = 1.6
"""The lead is this many times the slowest of the recent starts of helpers."""
RECENT_STARTS = 4
TICK_NS = 10_000_000
"""The kernel counts timeouts in ticks, of 10 ms at most (CONFIG_HZ=100)."""
LONGEST_LEAD_NS = 5_000_000_000
HEALING_TRIES = 3
"""How often the removal of a fault's rules is tried where a node goes down or up meanwhile."""


@dataclass(frozen=True, slots=True)
class LinkFault:
    """One fault on links.

    name: unique among the faults of the run.
    directions: the directions on whose packets it acts.
    does: whether packets are lost, held back or limited in bandwidth, and by how much.
    for_ns: how long it lasts, from when the rules are loaded; None: until it is healed.
    """

    name: str
    directions: tuple[Direction, ...]
    does: Lose | Slow | Narrow
    for_ns: int | None

    @property
    def targets(self) -> dict[int, None]:
        return dict.fromkeys(direction.target for direction in self.directions)


@dataclass(slots=True)
class _Active:
    """A fault that was begun and not healed. Times are CLOCK_MONOTONIC.

    until_ns: when it ends as planned; None: when it is healed.
    ends_ns: by node, the time until which it certainly acts there.
    gone_ns: by node, the time from which on it certainly does not act there.
    """

    fault: LinkFault
    until_ns: int | None
    ends_ns: dict[int, int] = field(default_factory=dict)
    gone_ns: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Request:
    """A fault to begin or to heal.

    outcome: the proof, or the error that prevented one. None until the request is done, and for a
        request that had nothing to change.
    """

    fault: LinkFault
    heals: bool
    outcome: Proof | Exception | None = None


class LinkFaults:
    """The faults on links of one cluster; calls may come from different threads."""

    def __init__(
        self,
        namespaces: Namespaces,
        addresses: Mapping[str, int],
        clock_ns: Callable[[], int] = time.monotonic_ns,
        is_up: Callable[[int], bool] = lambda node: True,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin with no faults.

        addresses: the node ids by address. Any other address is outside the cluster.
        clock_ns: returns CLOCK_MONOTONIC.
        is_up: returns whether the node's container runs. A node that does not run has no rules,
            and sends no canaries.
        pause: waits for this many seconds, so that other threads can join a change.
        """
        self._namespaces = namespaces
        self._queues = PacketQueues(namespaces)
        self._node_at = dict(addresses)
        self._clock_ns = clock_ns
        self._is_up = is_up
        self._changing = threading.RLock()
        self._together = Together(self._do_together, self._changing, pause)
        self._active: dict[str, _Active] = {}
        self._told: dict[int, str] = {}
        self._starts_ns: deque[int] = deque(maxlen=RECENT_STARTS)

    def try_out(self, *, with_queues: bool = False) -> None:
        """Load and remove rules in every node's namespace, and learn how long that takes.

        with_queues: whether faults of the run will hold packets back. If so, a packet queue is
            tried at each node too.

        Raises:
            NotInNamespace: a helper does not run here.
            NotProven: the kernel does not take the rules.
        """
        with self._changing:
            asked_ns = self._clock_ns()
            of_nobody = Drop(Direction("192.0.2.1", 0, 1), 1, asked_ns + LEASE_NS)
            there_and_back = script([of_nobody], asked_ns) + NO_RULES
            task = Task(script=there_and_back, queue=[_NOTHING_HELD] if with_queues else None)
            nodes = [node for node in self._node_at.values() if self._is_up(node)]
            reports = self._with_queues(
                nodes if with_queues else (),
                lambda: self._namespaces.run(dict.fromkeys(nodes, task)),
            )
            self._queues.end_all()
            _refuse_errors(reports)
            self._note_starts(asked_ns, reports)

    # ------------------------------------------------------------ begin, heal, renew

    def apply(self, fault: LinkFault) -> Proof:
        """Begin the fault, and return the proof that it acts.

        A node that is down gets the rules from tell_again after it was started.

        Raises:
            NotInNamespace: a node could not be reached; the fault is not active.
            NotProven: canaries do not show the fault, or no canary can be sent along any of its
                directions. The fault stays active, and must be healed.
        """
        proof = self._ask(_Request(fault, heals=False))
        if proof is None:
            raise NotProven(f"fault {fault.name} acts already")
        return proof

    def heal(self, name: str) -> Proof | None:
        """End the fault, and return the proof that it is gone; None if it is not active.

        Raises:
            NotInNamespace: a node could not be reached: it is down, and has no rules any more.
            NotProven: canaries do not arrive.
        """
        active = self._active.get(name)
        return None if active is None else self._ask(_Request(active.fault, heals=True))

    @property
    def active(self) -> tuple[LinkFault, ...]:
        return tuple(each.fault for each in self._active.values())

    def acts_on(self, directions: Iterable[Direction]) -> bool:
        """Return whether an active fault acts on packets of one of these directions now."""
        with self._changing:
            state, now_ns = self._state(), self._clock_ns()
        return any(state.asked_of(each, now_ns)[0] != Asked() for each in directions)

    def renew(self) -> None:
        """Load the rules of all faults without end again, so that their leases go on.

        Raises:
            NotInNamespace: a node could not be reached.
        """
        with self._changing:
            endless = [active for active in self._active.values() if active.until_ns is None]
            targets = dict.fromkeys(node for active in endless for node in active.fault.targets)
            self._tell([node for node in targets if self._is_up(node)])

    def tell_again(self, node: int) -> bool:
        """Load the rules of a restarted node again: it lost them with its network namespace.

        Returns whether it has any.

        Raises:
            NotInNamespace: the node could not be reached.
        """
        with self._changing:
            holds = any(node in active.fault.targets for active in self._active.values())
            if holds:
                self._tell([node])
            return holds

    def end(self) -> None:
        """End the packet queues; called when no fault is active any more."""
        with self._changing:
            self._queues.end_all()

    @property
    def lead_ns(self) -> int:
        """The time from a call until the rules are loaded, ns, estimated from the latest changes.

        It is longer while links are slow: the canaries sent before the change must arrive first.
        """
        asked = round(LEAD_PER_START * max(self._starts_ns, default=0))
        held_ns = (
            (each.fault.does.latency_ms + each.fault.does.jitter_ms) * 1_000_000 + LATE_NS
            for each in list(self._active.values())
            if isinstance(each.fault.does, Slow)
        )
        return min(LONGEST_LEAD_NS, max(LEAST_LEAD_NS, asked)) + max(held_ns, default=0)

    # ------------------------------------------------------------ together

    def _ask(self, request: _Request) -> Proof | None:
        """Do the request, in one change with other threads' requests, and return its proof."""
        self._together.ask(request)
        if isinstance(request.outcome, Exception):
            raise request.outcome
        return request.outcome

    def _do_together(self, requests: Sequence[_Request], tries: int = HEALING_TRIES) -> None:
        """Do all requests in one change, or one by one where a node cannot be reached.

        A node may go down, or come up, while helpers begin: healing is then tried again.
        """
        were = dict(self._active)
        try:
            self._do(requests)
        except NotInNamespace as error:
            self._active = were
            self._tell_reachable({node for each in requests for node in each.fault.targets})
            if len(requests) > 1:
                for each in requests:
                    self._do_together([each])
                return
            (request,) = requests
            if request.heals and tries > 1:
                self._do_together(requests, tries - 1)
                return
            self._active.pop(request.fault.name, None)
            request.outcome = error
        except Exception as error:  # noqa: BLE001 (raised in the thread of each who asked)
            for each in requests:
                each.outcome = error

    def _do(self, requests: Iterable[_Request]) -> None:
        """Change which faults are active, then the rules; each request gets its own outcome."""
        before = self._state()
        apply_at_ns = self._clock_ns() + self.lead_ns - round(TOGETHER_S * 1e9)
        to_do = [each for each in requests if each.heals is (each.fault.name in self._active)]
        for each in to_do:
            fault = each.fault
            until_ns = None if fault.for_ns is None else apply_at_ns + fault.for_ns
            if each.heals:
                del self._active[fault.name]
            else:
                self._active[fault.name] = _Active(fault, until_ns)
        if to_do:
            self._change(to_do, before, apply_at_ns)

    # ------------------------------------------------------------ a change and its proof

    def _change(self, requests: Sequence[_Request], before: State, apply_at_ns: int) -> None:
        """Load the rules where these faults act, measure before and after, and prove each fault."""
        up = {node: self._is_up(node) for node in self._node_at.values()}
        faults = [each.fault for each in requests]
        targets = [n for n in dict.fromkeys(n for each in faults for n in each.targets) if up[n]]
        incarnations = {node: self._namespaces.incarnation(node) for node in targets}
        # A node that was restarted since its rules were loaded has none until tell_again.
        before = before.without({n for n in targets if self._told.get(n) != incarnations[n]})
        watched = {each.name: self._watched(each, up) for each in faults}
        directions = [direction for found in watched.values() for direction in found]
        watch = LinkWatch(
            self._namespaces, self._node_at, directions, before, self._state(), apply_at_ns
        )
        until_ns = apply_at_ns + watch.watch_ns
        reports = self._run(watch, targets, until_ns, apply_at_ns)
        self._told |= incarnations
        applied_ns = {node: reports[node].applied_ns or until_ns for node in targets}
        self._count_from(applied_ns, reports, requests)
        try:
            _refuse_errors(reports)
        except NotProven as error:
            for each in requests:
                each.outcome = error
            return
        shown_before = watch.before(reports, before, apply_at_ns)
        shown = watch.after(reports, self._state(), applied_ns)
        if not is_as_asked(shown):
            # Perhaps a helper was late: measure the links once more, for longer.
            until_ns = self._clock_ns() + 2 * self.lead_ns + watch.watch_ns
            shown = watch.after(watch.run(until_ns, {}, 0), self._state(), {})
        for each in requests:
            fault = each.fault
            applied = max((applied_ns[n] for n in fault.targets if up[n]), default=apply_at_ns)
            mine = watched[fault.name]
            unmeasured = len(fault.directions) - len(mine)
            does = None if each.heals else fault.does
            try:
                each.outcome = prove_links(
                    does, applied, canaries_of(mine), shown_before, shown, unmeasured
                )
            except NotProven as error:
                each.outcome = error

    def _run(
        self, watch: LinkWatch, targets: Sequence[int], until_ns: int, apply_at_ns: int
    ) -> Mapping[int, Report]:
        """Change the targets' rules while canaries go; begin and end the queues they need."""
        if not targets:
            # Without a namespace there are no rules: nothing to load, nothing left to remove.
            return {}
        asked_ns = self._clock_ns()
        state = self._state()
        needed = {node for node in targets if state.at_node(node).holds}
        changes = {n: self._node_change(state, n, apply_at_ns) for n in targets}
        reports = self._with_queues(needed, lambda: watch.run(until_ns, changes, apply_at_ns))
        self._note_starts(asked_ns, reports)
        self._queues.end([node for node in targets if node not in needed])
        return reports

    def _with_queues(
        self, nodes: Collection[int], run: Callable[[], Mapping[int, Report]]
    ) -> Mapping[int, Report]:
        """Begin packet queues at these nodes while helpers run; return the helpers' reports."""
        with ThreadPoolExecutor(1, thread_name_prefix="queues") as pool:
            begun = pool.submit(self._queues.begin, nodes)
            reports = run()
            begun.result()
        return reports

    def _count_from(
        self,
        applied_ns: Mapping[int, int],
        reports: Mapping[int, Report],
        requests: Iterable[_Request],
    ) -> None:
        """Note when each node's rules end.

        The kernel counts from when it got the rules, and the queue from when it got its effects.
        """
        for each in requests:
            active, fault = self._active.get(each.fault.name), each.fault
            if active is None or fault.for_ns is None:
                continue
            for node, at_ns in applied_ns.items():
                if node not in fault.targets:
                    continue
                told_ns, loading_ns = reports[node].told_ns, reports[node].loading_ns
                if not isinstance(fault.does, Lose):
                    if told_ns is not None:
                        active.ends_ns[node] = told_ns + fault.for_ns
                    continue
                began_ns = at_ns if loading_ns is None else loading_ns
                active.ends_ns[node] = began_ns + fault.for_ns - TICK_NS
                active.gone_ns[node] = at_ns + fault.for_ns + TICK_NS

    def _watched(self, fault: LinkFault, up: Mapping[int, bool]) -> list[Direction]:
        """Return the fault's directions that canaries can take: between nodes that run."""
        return [
            each
            for each in fault.directions
            if up[each.target]
            and not each.leaves
            and up.get(self._node_at.get(each.source, OUTSIDE), False)
        ]

    # ------------------------------------------------------------ rules of nodes

    def _tell(self, nodes: Collection[int]) -> None:
        now_ns, state = self._clock_ns(), self._state()
        self._queues.begin([node for node in nodes if state.at_node(node).holds])
        changes = {node: self._node_change(state, node, now_ns) for node in nodes}
        tasks = {n: Task(script=c.script, queue=c.queue) for n, c in changes.items()}
        incarnations = {node: self._namespaces.incarnation(node) for node in nodes}
        reports = self._namespaces.run(tasks)
        _refuse_in_namespace(reports)
        self._told |= incarnations

    def _tell_reachable(self, nodes: Iterable[int]) -> None:
        """Load the rules of the nodes that can be reached, after a change that failed."""
        for node in nodes:
            if self._is_up(node):
                with contextlib.suppress(NotInNamespace):
                    self._tell([node])

    def _node_change(self, state: State, node: int, at_ns: int) -> NodeChange:
        return node_change(state, node, at_ns, has_queue=self._queues.is_at(node))

    def _state(self) -> State:
        """Return the drops and holds of all active faults, in the order in which faults began."""
        lease_ns = self._clock_ns() + LEASE_NS
        drops: list[Drop] = []
        holds: list[Hold] = []
        for active in self._active.values():
            planned_ns, does = active.until_ns or lease_ns, active.fault.does
            for direction in active.fault.directions:
                until_ns = active.ends_ns.get(direction.target, planned_ns)
                if isinstance(does, Lose):
                    gone_ns = active.gone_ns.get(direction.target, 0)
                    drops.append(Drop(direction, does.percent, until_ns, gone_ns))
                else:
                    holds.append(Hold(direction, does, until_ns))
        return State(drops, holds)

    def _note_starts(self, asked_ns: int, reports: Mapping[int, Report]) -> None:
        ready = (max(each.opened_ns, each.queue_ready_ns or 0) for each in reports.values())
        self._starts_ns.append(max(ready) - asked_ns)


_NOTHING_HELD: Mapping[str, object] = {"pipe": 1, "lasts_ns": 0, "latency_ns": 0}
"""An effect that ends at once. Sending it shows whether a packet queue listens."""


def _errors(reports: Mapping[int, Report]) -> str:
    return "; ".join(f"node {n}: {report.error}" for n, report in reports.items() if report.error)


def _refuse_errors(reports: Mapping[int, Report]) -> None:
    if errors := _errors(reports):
        raise NotProven(errors)


def _refuse_in_namespace(reports: Mapping[int, Report]) -> None:
    if errors := _errors(reports):
        raise NotInNamespace(errors)
