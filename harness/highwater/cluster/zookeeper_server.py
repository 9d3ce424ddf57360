"""One ZooKeeper server alone in a container, for tests of its clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from docker.errors import APIError
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from highwater.cluster.cleaning import remove_run
from highwater.cluster.engine import Reach, connect_engine, engine_facts
from highwater.cluster.host_ports import choose_ports
from highwater.cluster.images import ensure_images
from highwater.cluster.labels import Lease, Owner, RunLabels
from highwater.cluster.reaper import REAPER
from highwater.cluster.topology import ZOOKEEPER_PORT
from highwater.cluster.zookeeper_dump import four_letter_word
from highwater.run_folder import new_run_id
from highwater.waiting import eventually
from highwater_core.ids import Endpoint

ANSWERS_WITHIN_S = 30.0
_ATTEMPTS = 3

testcontainers_config.ryuk_disabled = True


@contextmanager
def zookeeper_server() -> Iterator[Endpoint]:
    """Yield the endpoint of an empty server, which is removed afterwards."""
    engine = connect_engine()
    facts = engine_facts(engine)
    images = ensure_images(engine)
    run = RunLabels(new_run_id("zookeeper"), Lease.OWNED, Owner.of_this_process())
    REAPER.cluster_up()
    try:
        for attempt in range(_ATTEMPTS):
            container = DockerContainer(images.zookeeper, name=f"highwater-{run.run_id}")
            container.with_kwargs(labels=run.as_labels(kind="zookeeper"), init=True)
            (port,) = choose_ports(1, bind_host=facts.bind_host)
            if facts.reach is Reach.PUBLISHED:
                container.ports[f"{ZOOKEEPER_PORT}/tcp"] = (facts.bind_host, port)
            try:
                container.start()
                break
            except APIError:
                container.stop()
                if attempt + 1 == _ATTEMPTS:
                    raise
        endpoint = Endpoint(facts.published_host, port)
        if facts.reach is Reach.DIRECT:
            wrapped = container.get_wrapped_container()
            wrapped.reload()
            networks = wrapped.attrs["NetworkSettings"]["Networks"]
            endpoint = Endpoint(next(iter(networks.values()))["IPAddress"], ZOOKEEPER_PORT)
        container.get_docker_client().client.close()
        eventually(
            lambda: four_letter_word(endpoint, "ruok") == "imok",
            within=ANSWERS_WITHIN_S,
            what=f"ZooKeeper answers at {endpoint}",
        )
        yield endpoint
    finally:
        remove_run(engine, run.run_id)
        engine.close()
        REAPER.cluster_down()
