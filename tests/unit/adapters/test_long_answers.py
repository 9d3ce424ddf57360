"""Requests whose answers exceed the protocol's limits, with a broker's own handlers."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

from highwater_core.ids import NodeId
from highwater_wire.kafka.codec import decode_response, encode_request
from highwater_wire.kafka.config_messages import (
    ConfigResource,
    DescribeConfigsRequest,
)
from highwater_wire.kafka.messages import (
    CreateTopicsRequest,
    KafkaRequest,
    MetadataRequest,
    MetadataResponse,
    TopicToCreate,
)

PROCESS = '''
import sys
from highwater_adapters import process
from highwater_adapters.tcp_server import ListenerSpec
from highwater_broker.kafka_api.dispatcher import KafkaApi
from highwater_broker.kafka_api.api_settings import KafkaApiSettings
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.purgatory import Purgatory
from highwater_core.assignments import find_assignment_fault
from highwater_core import messages as control
from highwater_core.admin_messages import TopicResult
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_core.topic_configs import BadTopicConfig, parse_topic_config
from highwater_wire.kafka.versions import VERSION_PROFILE
from tests.unit.adapters.node_settings import Settings

def of_nobody():
    """A controller's word of a cluster without brokers and topics: so much is known."""
    cache = MetadataCache()
    cache.update(control.UpdateMetadataRequest(NodeId(1000), 1, 1, (), ()))
    return cache

class Parts:
    def get(self, topic_partition):
        return None

    def has_failed(self, topic_partition):
        return False

class Controller:
    """Says what is wrong with a topic, in the active controller's words."""
    async def call(self, request, response_type, timeout_ms):
        results = []
        for topic in request.topics:
            words = ""
            try:
                parse_topic_config(dict(topic.config))
            except BadTopicConfig as error:
                words = str(error)
            if not words and topic.assignment:
                words = find_assignment_fault(topic.assignment, frozenset({NodeId(0)}))
            results.append(TopicResult(topic.name, ErrorCode.INVALID_CONFIG, words))
        return control.CreateTopicsResponse(ErrorCode.NONE, tuple(results))

class Node:
    def __init__(self, settings, ports):
        self.ports = ports
        self.stopping = ports.runtime.event()
        self.api = KafkaApi(
            KafkaApiSettings(NodeId(7), "c", VERSION_PROFILE.api_version_ranges()),
            ports, Parts(), of_nobody(), Purgatory(ports.runtime), Controller(), *[None] * 5,
        )

    def request_stop(self):
        self.stopping.set()

    async def run(self):
        print(listener.port, flush=True)
        await self.stopping.wait()

def make_listeners(settings, node):
    async def handle(request, context):
        return await node.api.handle(request, "EXTERNAL")
    return [ListenerSpec("EXTERNAL", 0, handle, host="127.0.0.1")]

class Listener(process.KafkaListener):
    async def start(self):
        global listener
        listener = self
        await super().start()

process.KafkaListener = Listener
sys.exit(process.run_node(Settings(sys.argv[1]), Node, make_listeners))
'''

LONG = "t" * 32_760


def describe(kind: int, name: str) -> KafkaRequest:
    return DescribeConfigsRequest((ConfigResource(kind, name, None),))


def create(topic: TopicToCreate) -> KafkaRequest:
    return CreateTopicsRequest((topic,), 1000)


REQUESTS: list[tuple[KafkaRequest, int]] = [
    (describe(2, LONG), 1),
    (describe(2, "\x01" * 9_000), 1),  # four letters each where they are shown
    (describe(4, LONG), 1),
    (create(TopicToCreate("a", 1, 1, configs=(("segment.ms", "x" * 32_760),))), 2),
    (create(TopicToCreate("a", -1, -1, ((0, tuple(map(NodeId, range(1000, 10_000)))),))), 2),
]


def ask(port: int, request: KafkaRequest, version: int) -> bytes:
    """Return the answer's frame, empty when the connection is closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(b"".join(encode_request(request, version, 1, "test")))  # type: ignore[arg-type]
        size = client.recv(4, socket.MSG_WAITALL)
        return client.recv(*struct.unpack(">i", size), socket.MSG_WAITALL) if size else b""


def test_no_request_for_a_long_answer_ends_a_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    log = tmp_path / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as node,
    ):
        assert node.stdout is not None
        port = int(node.stdout.readline())
        try:
            for request, version in REQUESTS:
                ask(port, request, version)  # answered or closed
                metadata = MetadataRequest(())
                _, response = decode_response(ask(port, metadata, 1), metadata, 1)
                assert isinstance(response, MetadataResponse)
        finally:
            node.send_signal(signal.SIGTERM)
            node.wait(timeout=30)
    assert node.returncode == 0, log.read_text()
