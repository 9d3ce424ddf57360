"""A node's settings come from its environment; an error names the setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from highwater_core.config import PRESETS, Overrides, Preset, Truncation, resolve_toggles
from highwater_core.settings import BadSetting, read_settings


@dataclass(frozen=True, slots=True)
class Settings:
    node_id: int
    preset: Preset = Preset.FENCED
    lag_ms: int = 10
    verbose: bool = False
    rules: Mapping[str, str | bool] = field(default_factory=dict)


def test_values_take_their_fields_types_and_others_keep_their_defaults() -> None:
    environment = {"HIGHWATER_NODE_ID": "7", "HIGHWATER_PRESET": "v3", "PATH": "/bin"}
    assert read_settings(Settings, environment) == Settings(node_id=7, preset=Preset.V3)


def test_a_mapping_is_a_json_object_or_empty() -> None:
    for text, rules in (("", {}), ('{"a": true, "b": "true"}', {"a": True, "b": "true"})):
        environment = {"HIGHWATER_NODE_ID": "7", "HIGHWATER_RULES": text}
        assert read_settings(Settings, environment).rules == rules


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "node_id"),
        ({"HIGHWATER_NODE_ID": "seven"}, "node_id"),
        ({"HIGHWATER_NODE_ID": "7", "HIGHWATER_PRESET": "v4"}, "preset"),
        ({"HIGHWATER_NODE_ID": "7", "HIGHWATER_LAG_MSEC": "1"}, "HIGHWATER_LAG_MSEC"),
        ({"HIGHWATER_NODE_ID": "7", "HIGHWATER_RULES": '{"a": 1}'}, "HIGHWATER_RULES"),
        ({"HIGHWATER_NODE_ID": "7", "HIGHWATER_RULES": "{"}, "HIGHWATER_RULES"),
    ],
    ids=["missing", "wrong type", "unknown value", "misspelt", "wrong in a mapping", "no JSON"],
)
def test_a_bad_setting_is_named(environment: dict[str, str], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        read_settings(Settings, environment)


def test_a_toggle_replaces_one_rule_of_its_preset() -> None:
    toggles = resolve_toggles(Preset.V3, {"truncation": "leader_epoch"})
    assert toggles.truncation is Truncation.LEADER_EPOCH
    assert toggles.unclean_election is PRESETS[Preset.V3].unclean_election


@pytest.mark.parametrize(
    "overrides", [{"truncate": True}, {"truncation": "sometimes"}, {"topic_id": "yes"}]
)
def test_an_unknown_toggle_or_value_is_refused(overrides: Overrides) -> None:
    with pytest.raises(ValueError, match=r"."):
        resolve_toggles(Preset.FENCED, overrides)
