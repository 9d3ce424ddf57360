"""Plans described in words, and written without default values."""

from __future__ import annotations

import msgspec
import pytest

from highwater_chaos import faults as f
from highwater_chaos.builds import NodeBuild
from highwater_chaos.plan import (
    BadPlan,
    Consumer,
    Expected,
    Group,
    Observed,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    When,
    Workload,
    decode_plan,
    encode_plan,
)
from highwater_chaos.words import say_fault, say_plan, say_step, say_when
from highwater_core.config import Preset


def example_of(kind: type[f.Fault]) -> f.Fault:
    """Return a fault of the kind with made-up values for its required fields."""
    values = {"node": "broker-0", "source": "broker-0", "target": "any", "plane": "client"}
    required = {
        field.name: values.get(field.name, "x" if field.type is str else 7)
        for field in msgspec.structs.fields(kind)
        if field.required
    }
    return kind(**required)


@pytest.mark.parametrize("kind", f.FAULTS, ids=f.fault_name)
def test_every_kind_of_fault_has_words(kind: type[f.Fault]) -> None:
    assert "{" not in say_fault(example_of(kind))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            Step(120, f.Kill("leader of t-0", 500)),
            "at 120 ms: kill leader of t-0, started again after 500 ms",
        ),
        (
            Step(0, f.Kill("broker-1", disk=f.DiskAtStart.EMPTY)),
            "at 0 ms: kill broker-1 and empty its disk",
        ),
        (Step(5, f.Upgrade("broker-1")), "at 5 ms: upgrade broker-1 to image this"),
        (
            Step(5, f.Upgrade("broker-1", "0a1b", Preset.KIP101)),
            "at 5 ms: upgrade broker-1 to image 0a1b, preset kip101",
        ),
        (Step(5, f.Pause("broker-1", 20)), "at 5 ms: pause broker-1 for 20 ms"),
        (
            Step(5, f.Pause("broker-1", 20, f.PauseBy.SIGSTOP)),
            "at 5 ms: pause broker-1 by SIGSTOP for 20 ms",
        ),
        (
            Step(5, f.CrashLoop("broker-1", 3, 40)),
            "at 5 ms: kill broker-1 3 times, 40 ms after each start",
        ),
        (
            Step(5, f.KillClient(for_ms=9)),
            "at 5 ms: kill every client, started again after 9 ms",
        ),
        (Step(5, f.KillClient("p0")), "at 5 ms: kill client p0"),
        (
            Step(5, f.LimitBandwidth("broker-0", "any", "client", 500, 20)),
            "at 5 ms: limit broker-0 -> any on client to 500 kbit/s for 20 ms",
        ),
        (
            Step(5, f.Cut("broker-0", "any", "replication", both_ways=True)),
            "at 5 ms: cut broker-0 <-> any on replication",
        ),
        (
            Step(5, f.CrashAt("broker-0", "before_truncation", 50, 400)),
            "at 5 ms: have broker-0 die at before_truncation, started again after 50 ms, "
            "armed for 400 ms",
        ),
        (
            Step(0, f.ExpireSession("broker-0"), When(Observed.ISR_IS_LEADER, "t-0")),
            "once the ISR of t-0 is the leader alone: expire the session of broker-0",
        ),
    ],
)
def test_a_steps_words_have_its_time_and_its_fault(step: Step, words: str) -> None:
    assert say_step(step) == words


def test_a_condition_says_how_often_and_how_much_later() -> None:
    when = When(Observed.EVENT, "t-0", "log_truncated", "broker-2", count=3, then_after_ms=4)
    assert say_when(when) == ("log_truncated of t-0 on broker-2 was traced 3 times, 4 ms later")


def test_a_plan_says_cluster_load_steps_and_healing() -> None:
    plan = Plan(
        seed=1,
        topology=PlanTopology(brokers=2, controllers=1),
        workload=Workload(
            (Topic(replication_factor=2),),
            (Producer(max_in_flight=5),),
            groups=(Group(), Group(members=1, stays_ms=900)),
        ),
        steps=(Step(1, f.Kill("broker-0")),),
        core=("broker-1", "controller-1000"),
        quiet_after_ms=100,
    )
    assert list(say_plan(plan)) == [
        "2 brokers, 1 controller, preset fenced",
        "topic t: 1 partition, 2 replicas, min.insync.replicas 1",
        "a producer to t: 20 records a second, acks=all, 5 requests in flight",
        "1 consumer",
        "a group of 2 members that read t and commit every 200 ms",
        "a group of 1 member that read t and commit every 200 ms, and go and come every 900 ms",
        "at 1 ms: kill broker-0",
        "at 100 ms all is healed for broker-1, controller-1000; the others stay cut off",
    ]


def test_a_plan_without_its_defaults_is_the_same_plan_and_says_no_more_than_it_must() -> None:
    plan = Plan(
        seed=3,
        title="a story",
        topology=PlanTopology(broker_settings={"segment_bytes": 600}),
        workload=Workload(producers=(Producer(), Producer(acks=1)), consumers=(Consumer(),)),
        steps=(Step(7, f.Pause("broker-0"), When(Observed.LEADER_EPOCH, "t-0")),),
        expected=Expected("fail", "I1", (4,), "a_bug"),
    )
    text = encode_plan(plan, omit_defaults=True)
    assert decode_plan(text) == plan
    assert msgspec.json.decode(text) == {
        "title": "a story",
        "seed": 3,
        "topology": {"broker_settings": {"segment_bytes": 600}},
        "workload": {"producers": [{}, {"acks": 1}]},
        "steps": [
            {
                "at_ms": 7,
                "do": {"fault": "pause", "node": "broker-0"},
                "when": {"state": "leader_epoch", "partition": "t-0"},
            }
        ],
        "expected": {"verdict": "fail", "invariant": "I1", "rows": [4], "planted": "a_bug"},
        "format": 2,
    }
    assert text.startswith(b'{\n  "title"')


def test_a_plan_with_a_field_that_plans_do_not_have_is_refused() -> None:
    with pytest.raises(BadPlan, match="colour"):
        decode_plan(b'{"seed": 1, "colour": "red"}')


def test_the_builds_that_nodes_begin_with_are_told() -> None:
    one = NodeBuild("0a1b")
    assert builds_told(any=one) == ["every node begins with image 0a1b"]
    assert builds_told(any=one, **{"broker-0": NodeBuild(preset=Preset.FENCED)}) == [
        "every other node begins with image 0a1b",
        "broker-0 begins with image this, preset fenced",
    ]


def builds_told(**builds: NodeBuild) -> list[str]:
    said = say_plan(Plan(1, topology=PlanTopology(builds=builds)))
    return [line for line in said if "begins with" in line]


def test_a_plan_with_builds_is_read_back_without_its_defaults() -> None:
    plan = Plan(1, topology=PlanTopology(builds={"any": NodeBuild("0a1b")}))
    text = encode_plan(plan, omit_defaults=True)
    assert decode_plan(text) == plan
    assert b"preset" not in text
