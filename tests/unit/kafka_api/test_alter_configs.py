"""AlterConfigs and IncrementalAlterConfigs: local refusals and forwarded changes."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core.admin_messages import (
    AlterConfigsResponse,
    AlteredConfig,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
    ConfigResult,
)
from highwater_core.errors import ErrorCode
from highwater_core.ports import CallFailed
from highwater_wire.kafka.config_messages import (
    AlterConfigsRequest,
    AlteredResource,
    ConfigAlteration,
    IncrementalAlterConfigsRequest,
    ReplacedConfig,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = ConfigEntity.TOPIC, ConfigEntity.BROKER


def altered(*alterations: ConfigAlteration, kind: int = 2, name: str = "t") -> Any:
    return IncrementalAlterConfigsRequest((AlteredResource(kind, name, alterations),))


def take_all(world: Any) -> None:
    """Have the controller grant every request."""

    def answer() -> None:
        results = tuple(
            ConfigResult(each.entity, each.name, ErrorCode.NONE)
            for each in world.controller.requests[-1].configs
        )
        world.controller.answer = AlterConfigsResponse(ErrorCode.NONE, results)

    world.controller.on_call = answer


def test_changes_are_forwarded_and_each_resource_is_answered(world: Any) -> None:
    def answer() -> None:
        results = (
            ConfigResult(BROKER, "", ErrorCode.INVALID_CONFIG, "no"),
            ConfigResult(TOPIC, "t", ErrorCode.NONE),
        )
        world.controller.answer = AlterConfigsResponse(ErrorCode.NONE, results)

    world.controller.on_call = answer
    changes = (ConfigAlteration("a", SET, "1"), ConfigAlteration("b", DELETE, None))
    resources = (
        AlteredResource(2, "t", changes),
        AlteredResource(4, "", ()),
        AlteredResource(4, "7", ()),
        AlteredResource(4, "x", ()),
    )
    answered = world.ask(IncrementalAlterConfigsRequest(resources, validate_only=True)).resources
    (forwarded,) = world.controller.requests
    assert forwarded.validate_only
    assert forwarded.configs == (
        AlteredConfig(
            TOPIC,
            "t",
            (
                ConfigChange("a", ConfigOperation.SET, "1"),
                ConfigChange("b", ConfigOperation.DELETE),
            ),
        ),
        AlteredConfig(BROKER, "", ()),
        AlteredConfig(BROKER, "7", ()),
    )
    assert [
        (each.resource_type, each.resource_name, each.error.name, bool(each.message))
        for each in answered
    ] == [
        (2, "t", "NONE", False),
        (4, "", "INVALID_CONFIG", True),
        (4, "7", "UNKNOWN_SERVER_ERROR", True),
        (4, "x", "INVALID_REQUEST", True),
    ]


def test_a_replaced_configuration_is_forwarded_as_such(world: Any) -> None:
    take_all(world)
    request = AlterConfigsRequest((ReplacedConfig(4, "1", (("a", "1"),)),))
    (answered,) = world.ask(request).resources
    assert answered.error is ErrorCode.NONE
    (forwarded,) = world.controller.requests
    change = ConfigChange("a", ConfigOperation.SET, "1")
    assert forwarded.configs == (AlteredConfig(BROKER, "1", (change,), replaces_all=True),)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (altered(kind=2, name=""), "INVALID_TOPIC_EXCEPTION"),
        (altered(kind=2, name="a/b"), "INVALID_TOPIC_EXCEPTION"),
        (altered(kind=4, name="-1"), "INVALID_REQUEST"),
        (altered(kind=4, name="\u0661"), "INVALID_REQUEST"),
        (altered(kind=8, name="1"), "INVALID_REQUEST"),
        (altered(kind=-1, name=""), "INVALID_REQUEST"),
        (altered(ConfigAlteration("segment.ms", SET, None)), "INVALID_REQUEST"),
        (altered(ConfigAlteration("segment.ms", 4, "1")), "INVALID_REQUEST"),
        (altered(*[ConfigAlteration("segment.ms", SET, "1")] * 2), "INVALID_REQUEST"),
        (altered(ConfigAlteration("segment.ms", APPEND, "1")), "INVALID_CONFIG"),
        (altered(ConfigAlteration("no.such", SUBTRACT, "1")), "INVALID_CONFIG"),
        (AlterConfigsRequest((ReplacedConfig(2, "t", (("a", None),)),)), "INVALID_REQUEST"),
        (AlterConfigsRequest((ReplacedConfig(2, "t", (("a", ""),) * 2),)), "INVALID_REQUEST"),
        (AlterConfigsRequest((ReplacedConfig(2, "t", ()),) * 2), "INVALID_REQUEST"),
    ],
)
def test_impossible_changes_are_refused_at_once(world: Any, request_: Any, error: str) -> None:
    (answered,) = world.ask(request_).resources
    assert answered.error.name == error
    assert answered.message
    assert world.controller.requests == []


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_changes_of_a_lists_entries_are_forwarded(world: Any, operation: int) -> None:
    take_all(world)
    world.ask(altered(ConfigAlteration("cleanup.policy", operation, "delete")))
    (forwarded,) = world.controller.requests
    change = ConfigChange("cleanup.policy", ConfigOperation(operation), "delete")
    assert forwarded.configs[0].changes == (change,)


def test_followers_connections_alter_nothing(world: Any) -> None:
    (answered,) = world.ask(altered(), "REPLICATION").resources
    assert answered.error is ErrorCode.INVALID_REQUEST
    assert world.controller.requests == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (CallFailed("late"), "REQUEST_TIMED_OUT"),
        (CallFailed("nobody", sent=False), "NOT_CONTROLLER"),
        (AlterConfigsResponse(ErrorCode.INVALID_REQUEST), "INVALID_REQUEST"),
    ],
)
def test_a_request_without_the_controllers_answer_stays_unknown(
    world: Any, answer: Any, error: str
) -> None:
    world.controller.answer = answer
    (answered,) = world.ask(altered()).resources
    assert answered.error.name == error
