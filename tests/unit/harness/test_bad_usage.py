"""Senseless arguments end an administrator's command with exit code 2, and no traceback."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from highwater import cli
from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import Topology
from highwater_core.ids import Endpoint


class Deaf:
    """A cluster whose brokers' ports are bound, and listen to nobody."""

    topology = Topology(brokers=1)
    node_ids = topology.broker_ids

    def external_endpoint(self, broker: int) -> Endpoint:
        return Endpoint("127.0.0.1", self.port)

    def __init__(self, port: int) -> None:
        self.port = port


@pytest.fixture(autouse=True)
def _cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        deaf = Deaf(bound.getsockname()[1])
        monkeypatch.setattr(Cluster, "attach", lambda run=None: deaf)
        yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("reassign demo-0 --to 99999999999", "does not fit"),
        ("reassign demo-99999999999 --to 1", "does not fit"),
        ("reassign --to 1", "TOPIC-PARTITION"),
        ("reassign --give-up", "TOPIC-PARTITION"),
        ("reassign demo-0 --to 1 --give-up", "exclude each other"),
        ("reassign demo --to 1", "demo-0"),
        ("elect --preferred demo-99999999999", "does not fit"),
        ("elect", "--preferred"),
        ("topics create t --partitions 99999999999", "does not fit"),
        ("topics create t --replication-factor 40000", "does not fit"),
        ("topics create t --replicas 99999999999", "does not fit"),
        ("topics expand t --to 99999999999", "does not fit"),
        ("topics describe " + "t" * 40_000, "does not fit"),
        ("configs set a=" + "1" * 40_000 + " --topic t", "does not fit"),
        ("configs set a --topic t", "NAME=VALUE"),
        ("metrics --serve 99999", "--serve"),
        ("metrics --serve -1", "--serve"),
        ("metrics --serve 0 --host " + "a" * 70, "cannot listen"),
        ("topics list", "does not answer"),
    ],
)
def test_the_command_says_why_and_ends_with_2(
    words: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["highwater", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert says in told
    assert "Traceback" not in told
    assert len(told) < 3_000
