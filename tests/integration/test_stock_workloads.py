"""Stock clients as a plan's workload: their histories are judged like our own client's."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.runs.stock.libraries import ClientKind
from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_checker.history import OperationType
from highwater_checker.run_folder.histories import read_history
from highwater_checker.verdict import Outcome
from tests.integration.plan_runs import run_plan

pytestmark = pytest.mark.docker

SESSION = {"session_timeout_ms": 2_000}
PLAN = Plan(
    seed=1,
    topology=PlanTopology(controllers=1, broker_settings=SESSION, controller_settings=SESSION),
    workload=Workload(
        (Topic(min_insync_replicas=2, partitions=2),),
        (
            Producer(rate_per_s=30, max_in_flight=5, batch_max_records=20),
            Producer(rate_per_s=30, retries=False, batch_max_records=20),
        ),
    ),
    steps=(Step(1_000, f.Kill("leader of t-0", 4_000)),),
    quiet_after_ms=8_000,
)


@pytest.mark.parametrize(
    "client",
    [
        # test_whole_node_failures runs librdkafka in every `make test`
        pytest.param(ClientKind.CONFLUENT, marks=pytest.mark.full),
        ClientKind.KAFKA_PYTHON,
    ],
)
def test_a_leaders_kill_under_a_stock_workload_passes(client: ClientKind, tmp_path: Path) -> None:
    result = run_plan(PLAN, tmp_path, client=client)
    folder = result.folder
    assert result.verdict.outcome is Outcome.PASS, result.verdict.reasons
    assert client.value.split("-")[0] in result.notes[-1] + result.notes[0]
    events = {
        name: read_history(folder / "history" / f"{name}.jsonl") for name in ("p0", "p1", "c0")
    }
    assert {event.type for event in events["p0"]} >= {OperationType.INVOKE, OperationType.OK}
    ended = [event for event in events["p1"] if event.type is not OperationType.INVOKE]
    assert {event.tries for event in ended} == {1}
    assert all(event.error for event in ended if event.type is not OperationType.OK)
    assert {event.function for event in events["c0"]} == {"poll"}
