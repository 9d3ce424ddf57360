"""The presets under which a test runs at every commit, and those that the full matrix adds."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_core.config import Preset, has_controllers

EACH_TIME = (Preset.V3, Preset.FENCED)
"""The design of controllers as it was first written, and every fix."""
HISTORICAL = tuple(preset for preset in Preset if preset not in EACH_TIME)
"""The design before it, and versions between the two: their rules are each in one of the two, or
have tests of their own."""
CONTROLLED = tuple(preset for preset in Preset if has_controllers(preset))
"""Those of clusters with controllers."""


def each_preset() -> list[Any]:
    """Return a test's parameters: every preset of clusters with controllers.

    The historical ones run with --full alone.
    """
    full = pytest.mark.full
    return [
        pytest.param(preset, id=preset.value, marks=full if preset in HISTORICAL else ())
        for preset in CONTROLLED
    ]
