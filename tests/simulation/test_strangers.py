"""Clients with requests that no sound client sends: their bytes, and no harm to others."""

from __future__ import annotations

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_core.config import Preset
from highwater_core.topic_configs import parse_topic_config
from highwater_simulator.runner import PlanRun
from highwater_simulator.strangers import EXTREMES, NAMES, forged_batch, requests_of
from highwater_wire.kafka.codec import (
    REPLICATION_PROFILE,
    decode_request,
    encode_request,
    replication_version,
)
from highwater_wire.kafka.record_batch import split_batches

QUICK = {"session_timeout_ms": 900}
BEYOND_THE_CODEC = (f.Strange.MANY_ASSIGNMENTS,)
"""Such requests are refused as they are read."""


def plan_with(kind: f.Strange, count: int) -> Plan:
    return Plan(
        seed=1,
        topology=PlanTopology(
            controllers=1, preset=Preset.FENCED, broker_settings=QUICK, controller_settings=QUICK
        ),
        workload=Workload(topics=(Topic(min_insync_replicas=2),), producers=(Producer(),)),
        steps=(Step(100, f.StrangeRequests(kind, count)), Step(900, f.Kill("broker-1", 200))),
        quiet_after_ms=1_500,
    )


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *((kind, 1) for kind in f.Strange if kind is not f.Strange.EXTREME_CONFIGS),
        *((f.Strange.EXTREME_CONFIGS, count) for count in range(len(EXTREMES))),
        *((f.Strange.NAMES_IN_ZOOKEEPER, count) for count in range(2, 1 + len(NAMES))),
    ],
)
def test_a_cluster_outlives_a_stranger_and_a_restart_and_loses_nothing(
    kind: f.Strange, count: int
) -> None:
    result = PlanRun(plan_with(kind, count)).run()
    assert str(result.violation) == "None"
    assert result.acknowledged > 5
    assert result.outcome.missed == []


@pytest.mark.parametrize("kind", [kind for kind in f.Strange if kind not in BEYOND_THE_CODEC])
def test_requests_of_strangers_fit_the_protocol(kind: f.Strange) -> None:
    if kind is f.Strange.NAMES_IN_ZOOKEEPER:
        return
    asked = list(requests_of(f.StrangeRequests(kind, 2), "strange"))
    assert asked
    for request in asked:
        version = replication_version(request)
        frame = b"".join(bytes(piece) for piece in encode_request(request, version, 0, "s"))  # type: ignore[arg-type]
        decode_request(frame[4:], profile=REPLICATION_PROFILE)


def test_a_forged_batch_has_a_sound_crc_and_the_given_claims() -> None:
    batches = split_batches(forged_batch(record_count=7, base_timestamp=5, max_timestamp=9) * 2)
    assert [each.header.record_count for each in batches] == [7, 7]
    assert {each.header.last_offset_delta for each in batches} == {6}
    assert {(each.header.base_timestamp, each.header.max_timestamp) for each in batches} == {(5, 9)}


def test_extreme_configurations_are_valid() -> None:
    for name, value in EXTREMES:
        assert name in parse_topic_config({name: value})
