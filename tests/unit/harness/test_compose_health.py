"""What compose takes for healthy: each check is run against an answer, and against none."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from highwater.project import project_root
from highwater_core.ids import NodeId
from highwater_wire.kafka.codec import VERSION_PROFILE, decode_request, encode_response
from highwater_wire.kafka.messages import MetadataBroker, MetadataRequest, MetadataResponse


def services() -> dict[str, Any]:
    text = (project_root() / "compose/compose.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def is_healthy(service: str, port: int, **environment: str) -> bool:
    """Run the service's check here, against that port of this machine."""
    kind, *command = services()[service]["healthcheck"]["test"]
    assert kind == "CMD"
    command = [part.replace("/2181", f"/{port}") for part in command]
    if command[0] == "python":
        command[0] = sys.executable
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, timeout=20, check=False
    )
    return done.returncode == 0


@contextmanager
def answering(answer: Any) -> Iterator[int]:
    """Serve one connection on the port that is yielded: answer(request) is sent, then it closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(answer(connection.recv(4096)))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)


def metadata_with(*brokers: int) -> Any:
    def answer(request: bytes) -> bytes:
        frame = decode_request(request[4:], profile=VERSION_PROFILE)
        assert isinstance(frame.request, MetadataRequest)
        assert frame.request.topics == (), "of no topic: all would be long"
        known = tuple(MetadataBroker(NodeId(each), f"broker-{each}", 9092) for each in brokers)
        response = MetadataResponse(known, "highwater", NodeId(-1), ())
        pieces = encode_response(response, frame.api_version, frame.correlation_id)
        return b"".join(bytes(piece) for piece in pieces)

    return answer


@pytest.mark.parametrize(
    ("known", "healthy"), [((0, 1, 2), True), ((1,), True), ((0, 2), False), ((), False)]
)
def test_a_broker_is_healthy_when_it_tells_clients_of_itself(
    known: tuple[int, ...], healthy: bool
) -> None:
    with answering(metadata_with(*known)) as port:
        found = is_healthy(
            "broker-1",
            port,
            HIGHWATER_NODE_ID="1",
            HIGHWATER_CLIENT_HOST="127.0.0.1",
            HIGHWATER_CLIENT_PORT=str(port),
        )
    assert found is healthy


@pytest.mark.parametrize(
    ("status", "healthy"), [("200 OK", True), ("503 Service Unavailable", False)]
)
def test_a_controller_is_healthy_when_it_answers_with_its_metrics(
    status: str, healthy: bool
) -> None:
    def answer(request: bytes) -> bytes:
        assert request.startswith(b"GET /metrics ")
        return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()

    with answering(answer) as port:
        found = is_healthy(
            "controller-1000",
            port,
            HIGHWATER_CONTROL_HOST="127.0.0.1",
            HIGHWATER_METRICS_PORT=str(port),
        )
    assert found is healthy


@pytest.mark.parametrize(("said", "healthy"), [(b"imok", True), (b"", False)])
def test_zookeeper_is_healthy_when_it_says_so(said: bytes, healthy: bool) -> None:
    with answering(lambda request: said if request == b"ruok\n" else b"") as port:
        assert is_healthy("zookeeper", port) is healthy


def test_nothing_that_listens_to_nobody_is_healthy() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert not is_healthy("zookeeper", port)


def test_every_service_is_checked() -> None:
    assert [name for name, each in services().items() if not each.get("healthcheck")] == []


def test_zookeepers_data_stays_as_long_as_the_brokers() -> None:
    """Found: without its volume `down` and `up` gave old brokers a new tree, and all logs went."""
    mounted = {name: each.get("volumes", []) for name, each in services().items()}
    assert [name for name, volumes in mounted.items() if len(volumes) != 1] == []
