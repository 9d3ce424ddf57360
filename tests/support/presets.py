"""The presets under which tests of a cluster with controllers run."""

from __future__ import annotations

from highwater_core.config import Preset, has_controllers

CONTROLLED = tuple(preset for preset in Preset if has_controllers(preset))
