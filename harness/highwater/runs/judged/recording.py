"""Records a test's cluster into its folder: looks, intents, histories, and promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater.cluster.asking import ask_any
from highwater.cluster.cluster import Cluster
from highwater.errors import HarnessError
from highwater.faults.intents import IntentLog
from highwater.run_folder import RunFolder
from highwater.runs.build import write_build
from highwater.runs.clock import RunClock
from highwater.runs.judged.consuming import RecordedConsumer
from highwater.runs.judged.ending import (
    Ending,
    NodeAtEnd,
    NodesDown,
    nodes_down,
    partitions_of,
    promises_of,
    requirements_of,
    topics_of,
    unsettled,
)
from highwater.runs.judged.faults_by_hand import FaultsByHand
from highwater.runs.judged.producing import RecordedProducer, Values
from highwater.runs.judged.proven_faults import ProvenFaults
from highwater.runs.observer import Observer
from highwater.runs.stock.recording import ClientHistory
from highwater.waiting import NeverHappened, eventually
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    TOPOLOGY,
    PromisedTopic,
    RunTopology,
)
from highwater_core.admin_messages import ConfigEntity
from highwater_core.ids import NodeId
from highwater_wire.kafka.config_messages import ConfigResource, DescribeConfigsRequest
from highwater_wire.kafka.messages import MetadataRequest

SETTLE_WITHIN_S = 20.0
"""Beyond a session's timeout, after which a dead leader is replaced."""
ANSWER_WITHIN_S = 10.0


class Recording:
    """The evidence of one running cluster, from now on; `conclude` and `end` end it."""

    def __init__(self, cluster: Cluster, folder: RunFolder) -> None:
        self.folder = folder
        self._cluster = cluster
        folder.write(TOPOLOGY, RunTopology.of(cluster.topology))
        write_build(folder)
        self._clock = RunClock.begin(folder)
        intents = IntentLog(folder.path / names.INTENTS, self._clock.now_ns)
        self.faults = FaultsByHand(intents)
        self.proven_faults = ProvenFaults(cluster, intents, self.faults)
        self._values = Values()
        self._producers: list[RecordedProducer] = []
        self._consumers: list[RecordedConsumer] = []
        self._observer = Observer(
            node_ids=cluster.node_ids,
            snapshot_of=cluster.try_snapshot,
            now_ns=self._clock.now_ns,
            path=folder.path / names.LOOKS,
            listener=lambda look, changes: None,
        )
        self._observer.start()

    # ------------------------------------------------------------ clients

    def producer(self, config: Mapping[str, Any]) -> RecordedProducer:
        process = f"p{len(self._producers)}"
        made = RecordedProducer(
            {"bootstrap.servers": self._cluster.bootstrap, **config},
            process,
            self._history(process),
            self._values,
        )
        self._producers.append(made)
        return made

    def consumer(self, topic: str, config: Mapping[str, Any]) -> RecordedConsumer:
        process = f"c{len(self._consumers)}"
        made = RecordedConsumer(
            {"bootstrap.servers": self._cluster.bootstrap, **config},
            topic,
            process,
            self._history(process),
        )
        self._consumers.append(made)
        return made

    def _history(self, process: str) -> ClientHistory:
        return ClientHistory(
            self.folder.path / names.HISTORY, process, self._clock.start_monotonic_ns
        )

    # ------------------------------------------------------------ the end

    def conclude(self) -> None:
        """End the clients, wait until the cluster is at rest, and write the promises.

        Nodes that the test left down stay down.
        """
        self.proven_faults.end()
        for producer in self._producers:
            producer.finish()
        ending = self._rest()
        final_look = self._observer.look_once()
        self.end()
        self.folder.write(FINAL_LOOK, final_look)
        kept_time = self._clock.kept_time()
        self.folder.write(REQUIREMENTS, (*requirements_of(ending), kept_time))
        producers = [each.promised for each in self._producers]
        consumers = [each.promised for each in self._consumers]
        self.folder.write(PROMISES, promises_of(ending, producers, consumers))

    def end(self) -> None:
        """Stop to record; again is harmless.

        Raises:
            RuntimeError: the observer died, so its looks are incomplete.
        """
        self.faults.end()
        self._observer.stop()

    def _rest(self) -> Ending:
        """Wait until the cluster is at rest, let consumers read to the end, and return how it is.

        A test may leave the cluster in any state, so that each wait may be in vain.
        """
        down = self._nodes_down()
        topics = self._topics()
        if topics is None:
            self._finish_consumers(set())
            return Ending(None, down)
        topics, why_not = self._await_rest(topics, in_sync_alone=down.are_some)
        unread = self._finish_consumers({topic.name for topic in topics})
        return Ending(topics, down, why_not, unread)

    def _finish_consumers(self, existing: set[str]) -> dict[str, str]:
        """End all consumers; return those of existing topics that did not read all, and why."""
        unread: dict[str, str] = {}
        for consumer in self._consumers:
            if consumer.promised.topic not in existing:
                consumer.close()
            elif why := consumer.finish():
                unread[consumer.promised.client] = why
        return unread

    def _await_rest(
        self, topics: tuple[PromisedTopic, ...], *, in_sync_alone: bool
    ) -> tuple[tuple[PromisedTopic, ...], str]:
        """Return the cluster's topics, and "" if it came to rest, else the condition that it lacks.

        Topics are listed each time: a topic that the test deleted last may still be listed once.
        """
        last = [(topics, "")]

        def is_at_rest() -> bool:
            listed = self._topics() or last[0][0]
            look = self._observer.look_once()
            lacking = unsettled(look, partitions_of(listed), in_sync_alone=in_sync_alone)
            last[0] = listed, lacking
            return not lacking

        within = SETTLE_WITHIN_S + self._cluster.topology.session_timeout_ms / 1000
        try:
            eventually(is_at_rest, within=within, what="the cluster is at rest")
        except NeverHappened:
            told, lacking = last[0]
            return told, f"not within {within:g} s: {lacking}"
        return last[0]

    def _nodes_down(self) -> NodesDown:
        look, acting = self._observer.look_once(), self.faults.still_act
        return nodes_down(
            NodeAtEnd(
                spec.name,
                runs=self._cluster.status(spec.node_id) == "running",
                answers=look.nodes.get(spec.node_id) is not None,
                has_fault=spec.node_id in acting,
            )
            for spec in self._cluster.topology.nodes()
        )

    def _topics(self) -> tuple[PromisedTopic, ...] | None:
        """Return all topics, None when no broker answers."""
        look = self._observer.look_once()
        brokers = [NodeId(each) for each in self._cluster.topology.broker_ids if look.nodes[each]]
        try:
            told = ask_any(self._cluster, MetadataRequest(None), ANSWER_WITHIN_S, brokers).topics
            resources = tuple(ConfigResource(int(ConfigEntity.TOPIC), each.name) for each in told)
            asked = DescribeConfigsRequest(resources)
            configs = ask_any(self._cluster, asked, ANSWER_WITHIN_S, brokers).resources
        except HarnessError:
            return None
        return topics_of(told, configs)
