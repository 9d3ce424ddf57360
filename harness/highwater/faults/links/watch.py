"""Canaries along links around a change of rules: how many go where, and how many arrive when."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from highwater.faults.links.asked import LATE_NS, Asked, State
from highwater.faults.links.namespaces import Namespaces, Report, Task
from highwater.faults.links.node_change import NodeChange
from highwater.faults.links.packet_pipes import BUFFER_NS
from highwater.faults.links.proof import (
    IP_UDP_BYTES,
    SETTLE_NS,
    Measured,
    Paced,
    Stream,
    measure,
    pace_of,
)
from highwater.faults.links.rules import ALL_PORTS, Canary, Direction, canaries_of, pipe_of

WATCH_NS = 300_000_000
"""How long canaries are sent after a change, in addition to the time that they travel."""
CANARY_EVERY_NS = 5_000_000
NEVER_NS = 1 << 62
OFFERED = 2.0
"""Canaries are sent at this many times the bandwidth of a narrow line."""
LEAST_BYTES, MOST_BYTES = 80, 1_400
"""The size of a canary's datagram; its name and its time fit into the least."""
OUTSIDE = -1
"""Stands for the node where an address belongs to none."""

_Within = Callable[[Canary], tuple[int, int]]
"""Returns when counting the canaries of a stream begins, and when it ends."""
Pipe = tuple[int, int]
"""A target node, and the number of the pipe there."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The loss, delay and pace of canaries.

    measured: loss and delay, by stream.
    paced: pace, by narrow line, of all its streams together.
    """

    measured: Mapping[Canary, Measured]
    paced: Mapping[Pipe, Paced]


class LinkWatch:
    """The canaries along some directions between nodes, before and after one change."""

    def __init__(
        self,
        namespaces: Namespaces,
        node_at: Mapping[str, int],
        directions: Iterable[Direction],
        before: State,
        after: State,
        apply_at_ns: int,
    ) -> None:
        """Choose the canaries.

        node_at: the nodes by address.
        directions: the directions between nodes along which canaries go.
        before, after: the drops and holds that act before and after the change.
        apply_at_ns: when the change is made, CLOCK_MONOTONIC.
        """
        self._namespaces = namespaces
        self._node_at = node_at
        self._address_of = {node: address for address, node in node_at.items()}
        self.canaries = canaries_of(dict.fromkeys(directions))
        self._asked = {
            canary: (
                before.asked_of(canary.direction, apply_at_ns)[0],
                after.asked_of(canary.direction, apply_at_ns)[0],
            )
            for canary in self.canaries
        }
        self.watch_ns = WATCH_NS + max(map(_waits_ns, self._asked.values()), default=0)

    def run(
        self, until_ns: int, changes: Mapping[int, NodeChange], apply_at_ns: int
    ) -> dict[int, Report]:
        """Exchange canaries until until_ns, and make the changes at apply_at_ns.

        Returns each node's report.

        Raises:
            NotInNamespace: a node could not be reached.
        """
        ports: dict[int, dict[int, None]] = {node: {} for node in changes}
        send: dict[int, list[dict[str, object]]] = {}
        for canary in self.canaries:
            source, target = self._node_at[canary.direction.source], canary.direction.target
            from_port, to_port = canary.ports()
            ports.setdefault(target, {})[to_port] = None
            ports.setdefault(source, {})[from_port] = None
            size, times = self._load(canary)
            send.setdefault(source, []).append(
                {"name": canary.name, "to": self._address_of[target], "from_port": from_port,
                 "to_port": to_port, "bytes": size, "times": times}
            )  # fmt: skip
        tasks = {
            node: Task(
                ports=tuple(opened),
                send=tuple(send.get(node, ())),
                until_ns=until_ns,
                every_ns=CANARY_EVERY_NS,
                least_ns=self.watch_ns,
                script=changes[node].script if node in changes else None,
                queue=changes[node].queue if node in changes else None,
                apply_at_ns=apply_at_ns,
            )
            for node, opened in ports.items()
        }
        return self._namespaces.run(tasks)

    def before(self, reports: Mapping[int, Report], state: State, end_ns: int) -> Shown:
        """Return loss, delay and pace of the canaries before the change. state: as of then."""

        def until(canary: Canary) -> tuple[int, int]:
            return 0, end_ns

        return self._shown(reports, state, until, until)

    def after(
        self, reports: Mapping[int, Report], state: State, applied_ns: Mapping[int, int]
    ) -> Shown:
        """Return loss, delay and pace of the canaries after the change. state: as of then.

        applied_ns: when each target's rules were loaded; empty: before all canaries.
        """

        def since(canary: Canary) -> tuple[int, int]:
            began_ns = applied_ns.get(canary.direction.target, 0)
            waits, now = self._asked[canary]
            # Packets keep their order, so they may wait behind earlier ones with a longer latency.
            behind_ns = waits.travel_ns if began_ns and now.travel_ns else 0
            return began_ns + behind_ns, NEVER_NS

        def arriving_since(canary: Canary) -> tuple[int, int]:
            return since(canary)[0] + self._asked[canary][1].travel_ns, NEVER_NS

        return self._shown(reports, state, since, arriving_since)

    def _shown(
        self, reports: Mapping[int, Report], state: State, sent: _Within, arriving: _Within
    ) -> Shown:
        measured = self._measured(reports, state, sent)
        return Shown(measured, self._paced(reports, measured, state, arriving))

    def _measured(
        self, reports: Mapping[int, Report], state: State, within: _Within
    ) -> dict[Canary, Measured]:
        """Measure each stream while both its ends took part and the faults stayed the same.

        Canaries that were sent too late to arrive within that time are not counted.
        """
        found = {}
        for canary in self.canaries:
            begin_ns, end_ns = within(canary)
            from_ns, to_ns = self._common(canary, reports, begin_ns, end_ns)
            from_ns = state.sure_from(canary.direction, from_ns)
            asked, steady_until_ns = state.asked_of(canary.direction, from_ns)
            to_ns = min(to_ns - asked.travel_ns, steady_until_ns) - SETTLE_NS
            sent, arrived = self._seen(canary, reports)
            found[canary] = measure(canary.name, asked, sent, arrived, from_ns, to_ns)
        return found

    def _paced(
        self,
        reports: Mapping[int, Report],
        measured: Mapping[Canary, Measured],
        state: State,
        within: _Within,
    ) -> dict[Pipe, Paced]:
        by_pipe: dict[Pipe, list[Canary]] = {}
        for canary in self.canaries:
            if measured[canary].asked.kbit_per_s is not None:
                by_pipe.setdefault(_pipe(canary), []).append(canary)
        found = {}
        for (target, pipe), canaries in by_pipe.items():
            first, asked = canaries[0], measured[canaries[0]].asked
            from_ns, to_ns = self._common(first, reports, *within(first))
            to_ns = min(to_ns, state.asked_of(first.direction, from_ns)[1]) - SETTLE_NS
            streams = [self._stream(canary, reports) for canary in canaries]
            name = f"{first.direction.source}>{target}"
            found[target, pipe] = pace_of(name, asked, streams, from_ns, to_ns)
        return found

    def _common(
        self, canary: Canary, reports: Mapping[int, Report], begin_ns: int, end_ns: int
    ) -> tuple[int, int]:
        """Return the part of [begin_ns, end_ns) in which sender and receiver took part."""
        sender = reports[self._node_at[canary.direction.source]]
        receiver = reports[canary.direction.target]
        from_ns = max(begin_ns, sender.opened_ns, receiver.opened_ns) + SETTLE_NS
        return from_ns, min(end_ns, sender.closed_ns, receiver.closed_ns)

    def _seen(
        self, canary: Canary, reports: Mapping[int, Report]
    ) -> tuple[Sequence[int], Mapping[int, int]]:
        """Return when canaries were sent; and when each arrived, if it did, by when it was sent."""
        receiver = reports[canary.direction.target]
        received, arrived = (
            receiver.received.get(canary.name, ()), receiver.arrived.get(canary.name, ()),
        )  # fmt: skip
        sender = reports[self._node_at[canary.direction.source]]
        return sender.sent.get(canary.name, ()), dict(zip(received, arrived, strict=True))

    def _stream(self, canary: Canary, reports: Mapping[int, Report]) -> Stream:
        sent, arrived = self._seen(canary, reports)
        return Stream(self._load(canary)[0], sent, tuple(arrived.values()))

    def _load(self, canary: Canary) -> tuple[int, int]:
        """Return the bytes of the canary's datagrams, and how many of them are sent at once."""
        narrow = [asked.kbit_per_s for asked in self._asked[canary] if asked.kbit_per_s is not None]
        if not narrow:
            return LEAST_BYTES, 1
        together = sum(
            each.direction.port != ALL_PORTS and _pipe(each) == _pipe(canary)
            for each in self.canaries
        )
        bits = OFFERED * max(narrow) * 1_000 * CANARY_EVERY_NS / 1e9 / together
        times = max(1, math.ceil(bits / 8 / MOST_BYTES))
        return max(LEAST_BYTES, math.ceil(bits / 8 / times) - IP_UDP_BYTES), times


def _waits_ns(asked: tuple[Asked, Asked]) -> int:
    """Return how long canaries may travel behind earlier ones, sent before the change."""
    narrow = any(each.kbit_per_s is not None for each in asked)
    return sum(each.travel_ns for each in asked) + (BUFFER_NS + LATE_NS if narrow else 0)


def _pipe(canary: Canary) -> Pipe:
    return canary.direction.target, pipe_of(canary.direction)
