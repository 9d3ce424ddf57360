"""Toggles: which replacements are accepted and which are refused."""

from __future__ import annotations

import msgspec
import pytest

from highwater_core.config import PRESETS, Overrides, Preset, resolve_toggles
from highwater_planted import PLANTED


@pytest.mark.parametrize("preset", list(Preset))
def test_a_preset_gives_up_none_of_its_own_premises(preset: Preset) -> None:
    assert resolve_toggles(preset) == PRESETS[preset]


@pytest.mark.parametrize(
    ("preset", "overrides", "needed"),
    [
        ("fenced", {"high_watermark_waits_for_min_isr": False}, "waits_for_min_isr"),
        ("v3", {"eligible_leader_replicas": True}, "waits_for_min_isr"),
        ("fenced", {"isr_write": "leader_conditional_write"}, "isr_write alter_partition"),
    ],
)
def test_a_toggle_that_breaks_anothers_promise_is_refused(
    preset: str, overrides: Overrides, needed: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=f"needs .*{needed}"):
        resolve_toggles(Preset(preset), overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        {"high_watermark_waits_for_min_isr": False, "eligible_leader_replicas": False},
        {"isr_write": "leader_conditional_write", "eligible_leader_replicas": False},
        {"topic_id": False},
    ],
)
def test_without_the_promise_its_premise_may_go(overrides: Overrides) -> None:
    resolve_toggles(Preset.FENCED, overrides)


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_no_planted_mistake_is_a_refused_pair(name: str) -> None:
    with PLANTED[name].apply():
        pass
