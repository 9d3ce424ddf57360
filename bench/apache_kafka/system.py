"""Apache Kafka in containers, on the harness's network, labels, ZooKeeper and cleaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network
from pathlib import Path

import docker
from docker.errors import ImageNotFound

from bench.apache_kafka.jars import ensure_jars
from bench.measures import wait_for_brokers
from bench.memory import largest_private_memory
from bench.systems import BROKERS, PhaseClock
from highwater.cluster.cleaning import remove_run, sweep_stale
from highwater.cluster.containers import Site, container_name, start_container
from highwater.cluster.engine import connect_engine, engine_facts
from highwater.cluster.images import ImageTags, ensure_images
from highwater.cluster.images.context import BuildContext, build_image
from highwater.cluster.labels import Lease, Owner, RunLabels
from highwater.cluster.network import create_network
from highwater.cluster.reaper import REAPER
from highwater.cluster.topology import (
    CLIENT_PORT,
    ZOOKEEPER,
    ZOOKEEPER_PORT,
    NodeKind,
    NodeSpec,
    Topology,
)
from highwater.run_folder import new_run_id
from highwater_core.ids import Endpoint

_FOLDER = Path(__file__).parent
_IMAGE_FILES = ("Dockerfile", "start", "server.properties", "log4j.properties")
_DATA_FOLDER = "/var/lib/kafka"
READY_WITHIN_S = 90.0
STOP_WITHIN_S = 20


def ensure_kafka_image(engine: docker.DockerClient, images: ImageTags) -> str:
    """Build the image of the jars on ZooKeeper's Java runtime, if need be, and return its tag.

    Raises:
        KafkaMissing: the jars cannot be had.
    """
    context = BuildContext()
    for name in _IMAGE_FILES:
        context.with_file(name, _FOLDER / name)
    for jar in ensure_jars():
        context.with_file(f"jars/{jar.name}", jar)
    tag = f"highwater/bench-kafka:{context.hash(images.zookeeper)}"
    try:
        engine.images.get(tag)
    except ImageNotFound:
        build_image(
            engine, context, tag=tag, kind="bench-kafka", arguments={"BASE": images.zookeeper}
        )
    return tag


class ApacheKafkaSystem:
    """Three brokers and the ZooKeeper that Highwater runs with. See bench.systems.System."""

    name = "Apache Kafka 3.9.1"

    def __init__(
        self,
        say: Callable[[str], None] = lambda text: None,
        broker_settings: Mapping[str, str] | None = None,
    ) -> None:
        """Make sure of the images.

        broker_settings: beside those of server.properties, by Kafka's names.

        Raises:
            KafkaMissing: Apache Kafka cannot be had here.
        """
        self._engine = connect_engine()
        self._say = say
        self._broker_settings = dict(broker_settings or {})
        self._image = ensure_kafka_image(self._engine, ensure_images(self._engine, say))
        self._run_id = ""
        self._topology = Topology(brokers=len(BROKERS), controllers=1)
        self._subnet = IPv4Network("0.0.0.0/0")

    def start(self, session_timeout_ms: int) -> Mapping[str, float]:
        clock = PhaseClock()
        images = ensure_images(self._engine, self._say)
        clock.end("images")
        self._run_id = new_run_id("bench-kafka")
        self._topology = Topology(
            brokers=len(BROKERS), controllers=1, session_timeout_ms=session_timeout_ms
        )
        REAPER.cluster_up()
        try:
            self._make(images, clock)
        except BaseException:
            self.stop()
            raise
        return clock.phases

    def _make(self, images: ImageTags, clock: PhaseClock) -> None:
        sweep_stale(self._engine)
        run = RunLabels(self._run_id, Lease.OWNED, Owner.of_this_process())
        network = f"highwater-{self._run_id}"
        _, self._subnet = create_network(self._engine, network, run, self._topology)
        clock.end("network")
        facts = engine_facts(self._engine)
        site = Site(run, self._topology, self._subnet, network, images, facts)
        brokers = [self._topology.node(broker) for broker in BROKERS]
        with ThreadPoolExecutor(len(brokers) + 1, thread_name_prefix="start") as pool:
            zookeeper = pool.submit(start_container, site, self._topology.node(ZOOKEEPER))
            list(pool.map(lambda spec: self._start_container(site, spec), brokers))
            zookeeper.result()
        clock.end("containers")
        wait_for_brokers(self.bootstrap, len(BROKERS), READY_WITHIN_S)
        clock.end("ready")

    def _start_container(self, site: Site, spec: NodeSpec) -> None:
        name = container_name(self._run_id, spec)
        labels = site.run.as_labels(node=str(spec.node_id), kind=NodeKind.BROKER)
        self._engine.api.create_volume(name, labels=labels)
        address = spec.address(self._subnet)
        endpoint = self._engine.api.create_endpoint_config(ipv4_address=address)
        self._engine.containers.create(
            self._image,
            ["/opt/kafka/start", *self._overrides(spec)],
            name=name,
            hostname=spec.name,
            labels=labels,
            network=site.network_name,
            networking_config={site.network_name: endpoint},
            volumes={name: {"bind": _DATA_FOLDER, "mode": "rw"}},
            init=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
        ).start()

    def _overrides(self, spec: NodeSpec) -> list[str]:
        address = spec.address(self._subnet)
        settings = {
            "broker.id": str(spec.node_id),
            "listeners": f"PLAINTEXT://{address}:{CLIENT_PORT}",
            "zookeeper.connect": str(self.zookeeper),
            "zookeeper.session.timeout.ms": str(self._topology.session_timeout_ms),
            **self._broker_settings,
        }
        return [
            part for name, value in settings.items() for part in ("--override", f"{name}={value}")
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(str(self.endpoint(broker)) for broker in BROKERS)

    @property
    def zookeeper(self) -> Endpoint:
        return Endpoint(self._topology.node(ZOOKEEPER).address(self._subnet), ZOOKEEPER_PORT)

    def endpoint(self, broker: int) -> Endpoint:
        return Endpoint(self._topology.node(broker).address(self._subnet), CLIENT_PORT)

    def kill_broker(self, broker: int) -> None:
        self._engine.api.kill(self._container(broker), "KILL")
        self._engine.api.wait(self._container(broker), timeout=STOP_WITHIN_S)

    def start_broker(self, broker: int) -> None:
        self._engine.api.start(self._container(broker))

    def broker_memory_bytes(self) -> Sequence[int]:
        return [largest_private_memory(self._engine, self._container(each)) for each in BROKERS]

    def stop(self) -> None:
        if self._run_id:
            remove_run(self._engine, self._run_id)
            REAPER.cluster_down()
            self._run_id = ""

    def _container(self, broker: int) -> str:
        return container_name(self._run_id, self._topology.node(broker))
