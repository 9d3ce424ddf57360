"""Runs a controller in this process, as its container does."""

from __future__ import annotations

import sys

from highwater_adapters.process import load_settings, run_node
from highwater_controller.node import ControllerNode
from highwater_controller.settings import ControllerSettings

if __name__ == "__main__":
    sys.exit(run_node(load_settings(ControllerSettings), ControllerNode))
