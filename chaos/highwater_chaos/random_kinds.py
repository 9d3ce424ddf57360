"""The kinds of faults in random plans: the targets, duration and steps of each.

A kind is one fault, or a pattern of several: a bridge, a ring, a link that flaps.
Source: Jepsen's partitions (its nemesis.clj) for bridges and rings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from highwater_chaos import faults as f
from highwater_chaos.draw import Draw
from highwater_chaos.fault_problems import is_described
from highwater_chaos.plan import Plan, Step, node_names

_DOWN_MS = (500, 1_000, 2_500, 5_000, 8_000)
"""Below and above a session's timeout."""
_CUT_MS = (3_000, 5_000, 8_000)
"""Long enough to count canaries while it acts."""
_PATTERN_MS = (8_000, 12_000)
_FLAP_EACH_MS = 4_500
"""Long enough to do and prove both changes of a link."""
_FLAP_MS = (3 * _FLAP_EACH_MS, 5 * _FLAP_EACH_MS)
_LOOP_MS = (5_000, 8_000)
"""Long enough for every kill of a loop: a container needs one to two seconds for a start."""
_LOOP_TIMES = (2, 3)
_LOOP_EVERY_MS = (0, 500)
_AT_ONCE = (0,)
_RING_MOST = 5


class Kind(StrEnum):
    """A kind of fault in a random plan."""

    KILL = "kill"
    CRASH_LOOP = "crash-loop"
    TERMINATE = "terminate"
    PAUSE = "pause"
    ISOLATE = "isolate"
    CUT_ONE_WAY = "cut-one-way"
    CUT_BOTH_WAYS = "cut-both-ways"
    BRIDGE = "bridge"
    """Two halves without a link, and one node with links to both."""
    RING = "ring"
    """Each node has links to its neighbours alone."""
    FLAP = "flap"
    """A link is cut and whole again, several times."""
    LOSS = "loss"
    SLOW_LINK = "slow-link"
    RESET = "reset"
    EXPIRE_SESSION = "expire-session"
    LOSE_ZOOKEEPER = "lose-zookeeper"
    """A connection with ZooKeeper breaks; the session lives on."""
    ZOOKEEPER_AWAY = "zookeeper-away"
    KILL_CLIENT = "kill-client"


BREAKS_EVERY_QUORUM = (Kind.RING, Kind.ZOOKEEPER_AWAY)
"""Kinds that no guarded plan has."""

NODE_FAULTS = (f.Kill, f.CrashLoop, f.Terminate, f.Pause, f.Isolate)
ON_LINKS = (f.Cut, f.LossyLink, f.SlowLink, f.Isolate)
"""Kinds that load rules and send canaries."""
_UNREACHABLE = (f.Kill, f.CrashLoop, f.Terminate, f.Isolate)
_CHANGES_NO_ROLES = (f.LossyLink, f.SlowLink)
_CLIENTS = "clients"
"""The node that stands for all clients in a kill of clients."""
_OF_A_CONNECTION = (f.ResetConnections, f.ExpireSession, f.LoseZooKeeperConnection)


def collide(mine: f.Fault, its: f.Fault) -> bool:
    """Return whether two faults on one node could prevent each other, or each other's proof."""
    both = (mine, its)
    if all(isinstance(fault, NODE_FAULTS) for fault in both):
        return True
    if all(isinstance(fault, f.KillClient) for fault in both):
        return True
    # The time of canaries is measured before and while it acts, without another rule in between.
    is_slow = any(isinstance(fault, f.SlowLink) for fault in both)
    if is_slow and all(isinstance(fault, ON_LINKS) for fault in both):
        return True
    # Clients must be answered before they are cut off, and again after.
    if any(_is_of_clients(fault) for fault in both) and all(
        _is_of_clients(fault) or isinstance(fault, NODE_FAULTS) for fault in both
    ):
        return True
    # A node that is down cannot get rules or send canaries, and a broken connection or an ended
    # session must exist before.
    if any(isinstance(fault, (*_UNREACHABLE, *_OF_A_CONNECTION)) for fault in both):
        return True
    # A role must have a node: no other fault may change it at that moment.
    return any(
        _describes_somebody(described) and not isinstance(changing, _CHANGES_NO_ROLES)
        for described, changing in (both, both[::-1])
    )


def _is_of_clients(fault: f.Fault) -> bool:
    return isinstance(fault, ON_LINKS) and getattr(fault, "plane", "") == "client"


def _words(fault: f.Fault) -> list[str]:
    named = (getattr(fault, field, None) for field in ("node", "source", "target"))
    return [words for words in named if words is not None]


def _describes_somebody(fault: f.Fault) -> bool:
    return any(is_described(words) for words in _words(fault))


class Targets:
    """Draws a fault's targets."""

    def __init__(self, draw: Draw, plan: Plan) -> None:
        names = node_names(plan.topology)
        self.draw = draw
        self.brokers = names[: plan.topology.brokers]
        self.controllers = names[plan.topology.brokers :]
        self._topic = plan.workload.topics[0]

    def partition(self) -> str:
        return f"{self._topic.name}-{self.draw.between(0, self._topic.partitions)}"

    def broker(self) -> str:
        if self.draw.chance(0.4):
            return f"leader of {self.partition()}"
        return self.draw.of(self.brokers)

    def controller(self) -> str:
        return "active controller" if self.draw.chance(0.5) else self.draw.of(self.controllers)

    def node(self) -> str:
        return self.broker() if self.draw.chance(0.7) else self.controller()

    def link(self) -> tuple[str, str, str]:
        """Return source, target and plane; one that can be cut in its receiver's kernel."""
        planes = ("client", "replication", "control", "zookeeper")
        plane = self.draw.of(planes if len(self.brokers) > 1 else ("client", *planes[2:]))
        if plane == "client":
            return f.ANY, self.broker(), plane  # the clients' own machine drops no packets
        if plane == "replication":
            ends = self._replication_ends()
        elif plane == "control":
            ends = [self.controller(), self.draw.of((f.ANY, self.draw.of(self.brokers)))]
        else:
            ends = [self.node(), "zookeeper"]
        if self.draw.chance(0.5):
            ends.reverse()
        return ends[0], ends[1], plane

    def connected(self) -> tuple[str, str, str]:
        """Return a link that has connections while there are no faults."""
        if self._topic.replication_factor < 2 or self.draw.chance(0.3):
            return "active controller", self.draw.of(self.brokers), "control"
        return f"leader of {self.partition()}", f.ANY, "replication"

    def _replication_ends(self) -> list[str]:
        if self._topic.replication_factor > 2 and self.draw.chance(0.4):
            partition = self.partition()
            role = self.draw.of(("follower", "last follower"))
            return [f"leader of {partition}", f"{role} of {partition}"]
        source, target = self.draw.shuffled(self.brokers)[:2]
        return [source, self.draw.of((target, target, f.ANY))]

    def touched(self, fault: f.Fault) -> tuple[str, ...]:
        """Return the nodes on which it may act, or with which it exchanges canaries."""
        if isinstance(fault, f.RestartZooKeeper | f.Isolate):  # every link of the node is proven
            return (*self.brokers, *self.controllers, "zookeeper")
        if isinstance(fault, f.KillClient):
            return (_CLIENTS,)
        return tuple(name for words in _words(fault) for name in self._meant(words))

    def _meant(self, words: str) -> tuple[str, ...]:
        if words == f.ANY:  # on every plane: the controllers' containers are peers as well
            return (*self.brokers, *self.controllers)
        if " of " in words:
            return self.brokers
        return self.controllers if words == "active controller" else (words,)


# ---------------------------------------------------------------- one maker a kind

_Make = Callable[[Targets, int], Sequence[Step]]


def draw_kind(kind: Kind, targets: Targets) -> tuple[int, Sequence[Step]]:
    """Return the duration of a fault of the kind in ms, and its steps, counted from its beginning.

    Without steps if the cluster is too small for it.
    """
    lengths_ms, make = _KINDS[kind]
    for_ms = targets.draw.of(lengths_ms)
    return for_ms, make(targets, for_ms)


def _at_once(*faults: f.Fault) -> list[Step]:
    return [Step(0, fault) for fault in faults]


def _pause(t: Targets, for_ms: int) -> Sequence[Step]:
    return _at_once(f.Pause(t.node(), for_ms, t.draw.of(tuple(f.PauseBy))))


def _crash_loop(t: Targets, for_ms: int) -> Sequence[Step]:
    times, every_ms = t.draw.of(_LOOP_TIMES), t.draw.of(_LOOP_EVERY_MS)
    return _at_once(f.CrashLoop(t.node(), times, every_ms, for_ms))


def _slow_link(t: Targets, for_ms: int) -> Sequence[Step]:
    latency_ms = t.draw.of((50, 100, 300))
    return _at_once(f.SlowLink(*t.link(), latency_ms, t.draw.of((0, latency_ms // 2)), for_ms))


def _flap(t: Targets, for_ms: int) -> Sequence[Step]:
    """Cut a link and heal it in turns of equal length."""
    source, target, plane = t.link()
    cut = f.Cut(source, target, plane, both_ways=t.draw.chance(0.5), for_ms=_FLAP_EACH_MS)
    return [Step(at_ms, cut) for at_ms in range(0, for_ms, 2 * _FLAP_EACH_MS)]


def _bridge(t: Targets, for_ms: int) -> Sequence[Step]:
    """Separate two halves of the brokers, except for one, and perhaps controllers from a half."""
    if len(t.brokers) < 3:
        return ()
    left, right = _halves(t.draw.shuffled(t.brokers)[1:])
    if len(t.controllers) < 2 or t.draw.chance(0.5):
        return _at_once(*_cuts(left, right, "replication", for_ms))
    first, second = _halves(t.draw.shuffled(t.controllers))
    crossing = _cuts(first, right, "control", for_ms) + _cuts(second, left, "control", for_ms)
    return _at_once(*crossing)


def _halves(names: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    return names[: len(names) // 2], names[len(names) // 2 :]


def _cuts(left: Sequence[str], right: Sequence[str], plane: str, for_ms: int) -> list[f.Fault]:
    return [
        f.Cut(one, other, plane, both_ways=True, for_ms=for_ms) for one in left for other in right
    ]


def _ring(t: Targets, for_ms: int) -> Sequence[Step]:
    """Leave each broker links to its two neighbours; of three, each one to a single other."""
    ring = t.draw.shuffled(t.brokers)[:_RING_MOST]
    if len(ring) < 3:
        return ()
    if len(ring) == 3:
        following = [*ring[1:], ring[0]]
        return _at_once(
            *(
                f.Cut(one, other, "replication", for_ms=for_ms)
                for one, other in zip(ring, following, strict=True)
            )
        )
    return _at_once(
        *(
            f.Cut(ring[first], ring[second], "replication", both_ways=True, for_ms=for_ms)
            for first in range(len(ring))
            for second in range(first + 2, len(ring))
            if (first, second) != (0, len(ring) - 1)
        )
    )


_KINDS: dict[Kind, tuple[Sequence[int], _Make]] = {
    Kind.KILL: (_DOWN_MS, lambda t, for_ms: _at_once(f.Kill(t.node(), for_ms))),
    Kind.CRASH_LOOP: (_LOOP_MS, _crash_loop),
    Kind.TERMINATE: (_DOWN_MS, lambda t, for_ms: _at_once(f.Terminate(t.node(), for_ms))),
    Kind.PAUSE: (_DOWN_MS, _pause),
    Kind.ISOLATE: (_CUT_MS, lambda t, for_ms: _at_once(f.Isolate(t.node(), for_ms))),
    Kind.CUT_ONE_WAY: (_CUT_MS, lambda t, for_ms: _at_once(f.Cut(*t.link(), for_ms=for_ms))),
    Kind.CUT_BOTH_WAYS: (
        _CUT_MS,
        lambda t, for_ms: _at_once(f.Cut(*t.link(), both_ways=True, for_ms=for_ms)),
    ),
    Kind.BRIDGE: (_PATTERN_MS, _bridge),
    Kind.RING: (_PATTERN_MS, _ring),
    Kind.FLAP: (_FLAP_MS, _flap),
    Kind.LOSS: (
        _CUT_MS,
        lambda t, for_ms: _at_once(f.LossyLink(*t.link(), t.draw.of((5, 10, 20)), for_ms)),
    ),
    Kind.SLOW_LINK: (_CUT_MS, _slow_link),
    Kind.RESET: (_AT_ONCE, lambda t, _: _at_once(f.ResetConnections(*t.connected()))),
    Kind.EXPIRE_SESSION: (_AT_ONCE, lambda t, _: _at_once(f.ExpireSession(t.node()))),
    Kind.LOSE_ZOOKEEPER: (
        _AT_ONCE,
        lambda t, _: _at_once(f.LoseZooKeeperConnection(t.node())),
    ),
    Kind.ZOOKEEPER_AWAY: (_DOWN_MS, lambda t, for_ms: _at_once(f.RestartZooKeeper(for_ms))),
    Kind.KILL_CLIENT: (_DOWN_MS, lambda _, for_ms: _at_once(f.KillClient(for_ms=for_ms))),
}
