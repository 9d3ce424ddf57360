"""A plan's faults on the links of one cluster of containers; the first one makes them ready."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from highwater.cluster.cluster import UP, Cluster
from highwater.cluster.images import ensure_faults_image
from highwater.cluster.topology import ZOOKEEPER, NodeKind
from highwater.errors import ImageBuildFailed
from highwater.faults.done import Done, Find, found, prove
from highwater.faults.links.acting import RENEW_S, LinkFault, LinkFaults, NotProven
from highwater.faults.links.client_probe import asks
from highwater.faults.links.client_proof import AskedBroker, cut_from_clients
from highwater.faults.links.namespaces import Namespaces, NotInNamespace, Task
from highwater.faults.links.resets import break_connections, half_open
from highwater.faults.links.rules import ALWAYS, PLANE_PORTS, Lose, Narrow, Slow
from highwater.faults.links.tcp_in_namespace import NO_UNTOLD, UNTOLD_TABLE
from highwater.faults.links.words import (
    CLIENTS,
    apart_from_clients,
    around,
    directions_of,
    from_zookeeper,
    nodes_and_peers,
    silenced_to_zookeeper,
    with_clients,
)
from highwater_chaos import faults as f

LONGEST_LATENCY_MS = 10_000
"""Latency and jitter together; canaries are not awaited for longer."""
LEAST_KBIT_PER_S, MOST_KBIT_PER_S = 32, 10_000
"""Bandwidths that canaries can show: below them too few arrive, above them too many must go."""
UNTOLD = f"inet {UNTOLD_TABLE}"
CLIENTS_UNSEEN = "clients are behind the engine's proxy, where their end is not seen"


class ClusterLinks:
    """Faults on one cluster's links; calls may come from different threads."""

    def __init__(self, cluster: Cluster, not_renewed: Callable[[str], None]) -> None:
        """not_renewed: called with the reason when a fault without end may end by itself."""
        self._cluster = cluster
        self._not_renewed = not_renewed
        self._lock = threading.Lock()
        self._namespaces: Namespaces | None = None
        self._links: LinkFaults | None = None
        self._renewal: threading.Thread | None = None
        self._is_over = threading.Event()

    def get_ready(self, *, with_queues: bool = False) -> LinkFaults:
        """Return the faults on links; the first time, make the image and begin to renew leases.

        with_queues: whether links will be slow or narrow. Then queues are tried too, so that
            lead_ms is known.

        Raises:
            ImageBuildFailed, NotInNamespace, NotProven: faults on links cannot be done here.
        """
        with self._lock:
            if self._links is None:
                at = {self._cluster.address(node): node for node in self._nodes()}
                links = LinkFaults(self._helpers(), at, is_up=self._is_up)
                links.try_out(with_queues=with_queues)
                self._links = links
                self._renewal = threading.Thread(
                    target=self._renew, args=(links,), name="renewal", daemon=True
                )
                self._renewal.start()
            return self._links

    def try_to_get_ready(self) -> str:
        """Get ready, and return why that is not possible here, "" when it is."""
        try:
            self.get_ready()
        except (ImageBuildFailed, NotInNamespace, NotProven) as error:
            return str(error)
        return ""

    @property
    def is_ready(self) -> bool:
        return self._links is not None

    @property
    def lead_ms(self) -> int:
        """How long it takes from the call until a fault on links acts, ms."""
        return 0 if self._links is None else round(self._links.lead_ns / 1e6)

    def tell_again(self, node: int) -> bool:
        """Load the rules of a node that was started again; return whether there were any.

        Raises:
            NotInNamespace: the node could not be reached.
        """
        return self._links is not None and self._links.tell_again(node)

    def end(self) -> None:
        """End the renewal of leases."""
        self._is_over.set()
        if self._renewal is not None:
            self._renewal.join()

    def heal_rest(self) -> list[str]:
        """Heal all faults that are still active, proven or not; return what failed."""
        links = self._links
        if links is None:
            return []
        problems = []
        for fault in links.active:
            try:
                links.heal(fault.name)
            except (NotInNamespace, NotProven, OSError) as error:  # or the engine does not answer
                problems.append(f"the links of fault {fault.name} are not back: {error}")
        try:
            links.end()
        except NotInNamespace as error:
            problems.append(str(error))
        return problems

    # ------------------------------------------------------------ faults

    def cut(self, name: str, fault: f.Cut, find: Find) -> Done:
        """Lose all packets of the link.

        Raises:
            NotDone, NotInNamespace, NotProven, NeverHappened: the fault was not done, or is not
                seen to act.
        """
        cut = self._on_link(name, fault, find, Lose(ALWAYS))
        is_silencing = fault.plane == "zookeeper"
        addresses = self._addresses()
        node = silenced_to_zookeeper(cut.directions, addresses) if is_silencing else None
        return self._cut(node, cut)

    def lose(self, name: str, fault: f.LossyLink, find: Find) -> Done:
        """Lose a share of the link's packets; raises as cut, but for NeverHappened."""
        return self._last(None, self._on_link(name, fault, find, Lose(fault.loss_percent)))

    def slow(self, name: str, fault: f.SlowLink, find: Find) -> Done:
        """Hold back the link's packets; raises as cut, but for NeverHappened."""
        slow = _slow(name, fault.latency_ms, fault.jitter_ms)
        return self._last(None, self._on_link(name, fault, find, slow))

    def narrow(self, name: str, fault: f.LimitBandwidth, find: Find) -> Done:
        """Limit the bandwidth of the link; raises as cut, but for NeverHappened."""
        shown = LEAST_KBIT_PER_S <= fault.kbit_per_s <= MOST_KBIT_PER_S
        prove(shown, f"canaries show {LEAST_KBIT_PER_S} to {MOST_KBIT_PER_S} kbit/s alone")
        return self._last(None, self._on_link(name, fault, find, Narrow(fault.kbit_per_s)))

    def slow_zookeeper(self, name: str, fault: f.SlowZooKeeper) -> Done:
        """Hold back ZooKeeper's replies to every node; raises as cut, but for NeverHappened."""
        directions = from_zookeeper(self._addresses())
        slow = _slow(name, fault.delay_ms, 0)
        return self._last(None, LinkFault(name, directions, slow, _for_ns(fault.for_ms)))

    def isolate(self, name: str, fault: f.Isolate, find: Find) -> Done:
        """Cut a node off from everyone but the harness's control requests; raises as cut."""
        node = found(find, fault.node)
        prove(self._is_up(node), f"node {node} is {self._cluster.status(node)}")
        directions = around(fault, find, self._addresses())
        return self._cut(node, LinkFault(name, directions, Lose(ALWAYS), _for_ns(fault.for_ms)))

    def reset(self, fault: f.ResetConnections, find: Find) -> Done:
        """Break every connection of the link, whichever end opened it.

        Raises:
            NotDone, NotInNamespace: there is no connection, or one is still there.
        """
        peers = nodes_and_peers(fault, find, self._addresses())
        return self._break(None, peers, fault.plane)

    def lose_zookeeper_connection(self, fault: f.LoseZooKeeperConnection, find: Find) -> Done:
        """Break the node's connection with ZooKeeper.

        Raises:
            NotDone, NotInNamespace: there is no connection, or it is still there.
        """
        node = found(find, fault.node)
        return self._break(node, {node: [self._cluster.address(ZOOKEEPER)]}, "zookeeper")

    def half_open(self, fault: f.HalfOpen, find: Find) -> Done:
        """Have the target forget every connection of the link, without a reset to the source.

        Raises:
            NotDone, NotInNamespace: there is no connection, or one is not seen to be half open.
        """
        prove(fault.plane != "client", CLIENTS_UNSEEN)
        here = self._of_those_up(nodes_and_peers(fault, find, self._addresses()))
        helpers = self._ready_helpers()

        def revert() -> str:
            tasks = {node: Task(script=NO_UNTOLD, show=UNTOLD) for node in self._of_those_up(here)}
            left = [report.error or report.shown for report in helpers.run(tasks).values()]
            prove(not any(left), f"resets are dropped still: {left}")
            return "resets pass"

        try:
            proof = half_open(helpers, here, PLANE_PORTS[fault.plane], self._up())
        except BaseException:
            revert()  # a fault that is not proven must not go on
            raise
        return Done(None, str(proof), revert)

    # ------------------------------------------------------------ inside

    def _on_link(
        self,
        name: str,
        fault: f.Cut | f.LossyLink | f.SlowLink | f.LimitBandwidth,
        find: Find,
        does: Lose | Slow | Narrow,
    ) -> LinkFault:
        directions = directions_of(fault, find, self._addresses())
        return LinkFault(name, directions, does, _for_ns(fault.for_ms))

    def _cut(self, node: int | None, cut: LinkFault) -> Done:
        """Cut links; a client proves it too for each running broker that clients cannot reach."""
        links = self.get_ready()
        apart = apart_from_clients(cut.directions, self._addresses())
        asked = [self._asked(each, links) for each in apart if self._is_running_broker(each)]
        return cut_from_clients(asked, cut.for_ns, lambda: self._last(node, cut))

    def _asked(self, broker: int, links: LinkFaults) -> AskedBroker:
        endpoint = self._cluster.external_endpoint(broker)
        ways = with_clients(broker, self._addresses())
        name = f"broker {broker}"

        def why_not() -> str:
            status = self._cluster.status(broker)
            if status != "running":
                return f"{name} is {status}, and answers no client"
            others = "another fault acts on its links with clients still"
            return f"{name}: {others}" if links.acts_on(ways) else ""

        return AskedBroker(
            name,
            lambda: asks(endpoint),
            why_not,
            lambda: self._cluster.try_snapshot(broker) is not None,
        )

    def _is_running_broker(self, node: int) -> bool:
        is_broker = self._cluster.topology.node(node).kind is NodeKind.BROKER
        return is_broker and self._cluster.status(node) == "running"

    def _last(self, node: int | None, fault: LinkFault) -> Done:
        links = self.get_ready()
        targets = {direction.target for direction in fault.directions}
        prove(any(self._is_up(each) for each in targets), "nobody runs at the links' ends")
        proof = links.apply(fault)

        def revert() -> str:
            healed = links.heal(fault.name)
            return "healed before" if healed is None else str(healed)

        return Done(node, str(proof), revert, proof.applied_ns)

    def _break(self, node: int | None, peers: Mapping[int, list[str]], plane: str) -> Done:
        here = self._of_those_up(peers)
        broken = break_connections(self._ready_helpers(), here, PLANE_PORTS[plane], self._up())
        return Done(node, str(broken), lambda: "over at once")

    def _of_those_up(self, peers: Mapping[int, list[str]]) -> dict[int, list[str]]:
        return {node: addresses for node, addresses in peers.items() if self._is_up(node)}

    def _ready_helpers(self) -> Namespaces:
        with self._lock:
            return self._helpers()

    def _helpers(self) -> Namespaces:
        """Return the nodes' namespaces; the caller holds the lock."""
        if self._namespaces is None:
            self._namespaces = Namespaces(
                self._cluster.engine,
                ensure_faults_image(self._cluster.engine),
                self._cluster.labels,
                {node: self._cluster.container_name(node) for node in self._nodes()},
            )
        return self._namespaces

    def _nodes(self) -> list[int]:
        return [int(spec.node_id) for spec in self._cluster.topology.nodes()]

    def _addresses(self) -> dict[int, str]:
        addresses = {node: self._cluster.address(node) for node in self._nodes()}
        return {**addresses, CLIENTS: str(self._cluster.subnet[1])}

    def _up(self) -> dict[str, int]:
        """Return the running nodes by address."""
        return {self._cluster.address(node): node for node in self._nodes() if self._is_up(node)}

    def _is_up(self, node: int) -> bool:
        return self._cluster.status(node) in UP

    def _renew(self, links: LinkFaults) -> None:
        """Renew leases until `end`. An error is reported and stops nothing: faults would end."""
        while not self._is_over.wait(RENEW_S):
            try:
                links.renew()
            except NotInNamespace as error:
                self._not_renewed(str(error))
            except Exception as error:  # noqa: BLE001 (reported, and tried again)
                self._not_renewed(repr(error))


def _slow(name: str, latency_ms: int, jitter_ms: int) -> Slow:
    """Return the latency as a link's fault.

    Raises:
        NotDone: canaries cannot show such a latency.
    """
    shown = 0 < latency_ms + jitter_ms <= LONGEST_LATENCY_MS
    prove(shown, f"canaries show 1 to {LONGEST_LATENCY_MS} ms alone")
    return Slow(latency_ms, jitter_ms, name)


def _for_ns(for_ms: int | None) -> int | None:
    return None if for_ms is None else for_ms * 1_000_000
