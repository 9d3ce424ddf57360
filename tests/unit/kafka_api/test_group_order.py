"""Each request that a group's handler answers waits for the OffsetCommits before it."""

from __future__ import annotations

from typing import Any, cast

from highwater_broker.kafka_api.group_handlers import group_handlers
from highwater_wire.kafka.committed_messages import OffsetCommitRequest
from highwater_wire.kafka.group_order import OF_GROUPS, is_commit, waits_for_commits
from highwater_wire.kafka.messages import MetadataRequest


def test_the_order_covers_every_request_that_has_a_groups_handler() -> None:
    nothing = cast(Any, None)
    assert set(OF_GROUPS) == set(group_handlers(nothing, nothing, nothing))


def test_other_requests_wait_for_nothing() -> None:
    assert waits_for_commits(OffsetCommitRequest("g", ()))
    assert is_commit(OffsetCommitRequest("g", ()))
    assert not waits_for_commits(MetadataRequest(None))
