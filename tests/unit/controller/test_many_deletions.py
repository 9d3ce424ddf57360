"""Thousands of topics that are deleted at once: no step of it goes over all of them."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_controller import topic_deletion
from highwater_controller.chunks import TOPICS_PER_STEP
from highwater_controller.context import ControllerContext, Replica
from highwater_controller.logic.replica_states import ReplicaState
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    NO_BROKER_EPOCH,
    ControllerEpoch,
    NodeId,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    CommandResponse,
    StopReplicaPartition,
    StopReplicaRequest,
)

ONE, TWO = NodeId(1), NodeId(2)


class LookedThrough(dict[TopicPartition, tuple[NodeId, ...]]):
    """Assignments that count how often somebody goes through all of them."""

    count = 0

    def __iter__(self) -> Iterator[TopicPartition]:
        self.count += 1
        return super().__iter__()


def doomed(topics: int, state: ReplicaState) -> ControllerContext:
    context = ControllerContext(NodeId(1000), ControllerEpoch(1))
    context._assignments = LookedThrough()
    for number in range(topics):
        topic = f"t-{number:04}"
        context.set_topic_id(topic, TopicId(f"{number:032x}"))
        for partition in (2, 0, 1):
            at = TopicPartition(topic, partition)
            context.assign(at, (ONE, TWO))
            for broker in (ONE, TWO):
                context.replica_states[Replica(at, broker)] = state
        context.topics_to_delete[topic] = None
    return context


class Turns:
    """A term without ZooKeeper and brokers: it notes each step, and each turn of the loop."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.steps: list[list[str] | None] = []
        """Topics of one step; None where other tasks run."""
        self.term: Any = SimpleNamespace(
            context=context, runtime=SimpleNamespace(sleep=self._sleep)
        )

    async def _sleep(self, duration_ms: int) -> None:
        self.steps.append(None)

    async def note(self, term: object, topics: Sequence[str]) -> None:
        if topics:
            self.steps.append(list(topics))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        with pytest.raises(StopIteration):
            work.send(None)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(topics: int, state: ReplicaState) -> Turns:
        turns = Turns(doomed(topics, state))
        monkeypatch.setattr(topic_deletion, "_begin", turns.note)
        monkeypatch.setattr(topic_deletion, "_complete", turns.note)
        return turns

    return make


@pytest.mark.parametrize("state", [ReplicaState.ONLINE, ReplicaState.DELETION_SUCCESSFUL])
def test_other_tasks_run_between_two_steps_of_many_deletions(
    make: Any, state: ReplicaState
) -> None:
    """Found: a new controller went over all of them in one stretch, and its watchdog ended it."""
    turns = make(3 * TOPICS_PER_STEP, state)
    turns.run(topic_deletion.resume_deletions(turns.term))
    topics = list(turns.context.topics_to_delete)
    first, second = TOPICS_PER_STEP, 2 * TOPICS_PER_STEP
    assert turns.steps == [topics[:first], None, topics[first:second], None, topics[second:]]


def test_a_topics_partitions_are_found_without_a_look_at_other_topics() -> None:
    context = doomed(50, ReplicaState.ONLINE)
    assert [at.partition for at in context.partitions_of("t-0007")] == [0, 1, 2]
    assert len(context.replicas_of("t-0007")) == 6
    context.forget_topic("t-0007")
    assert context.partitions_of("t-0007") == ()
    assert TopicPartition("t-0007", 1) not in context.assignments
    assert context._assignments.count == 0  # type: ignore[attr-defined]


def test_replicas_that_change_leave_a_topics_partitions_as_they_are() -> None:
    context = doomed(1, ReplicaState.ONLINE)
    context.assign(TopicPartition("t-0000", 1), (TWO,))
    assert [at.partition for at in context.partitions_of("t-0000")] == [0, 1, 2]
    assert context.assignments[TopicPartition("t-0000", 1)] == (TWO,)


def test_a_brokers_answer_resumes_the_deletions_of_its_topics_alone(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = make(5, ReplicaState.DELETION_SUCCESSFUL)
    context = turns.context
    at = TopicPartition("t-0003", 1)
    context.replica_states[Replica(at, TWO)] = ReplicaState.DELETION_STARTED

    async def move(term: Any, replicas: Sequence[Replica], target: ReplicaState) -> list[Replica]:
        for replica in replicas:
            context.replica_states[replica] = target
        return list(replicas)

    monkeypatch.setattr(topic_deletion, "move_replicas", move)
    request = StopReplicaRequest(
        NodeId(1000),
        ControllerEpoch(1),
        NO_BROKER_EPOCH,
        (StopReplicaPartition(at, delete_partition=True),),
    )
    response = CommandResponse(ErrorCode.NONE, ((at, ErrorCode.NONE),))
    turns.run(topic_deletion.on_stop_replica_answered(turns.term, TWO, request, response))
    assert turns.steps == [["t-0003"]]
