"""Puts into the wheel what images, bugs and their plans are made from: highwater/_sources.

It has the checkout's layout (highwater.project), so that an image has the same tag whether it is
built from a checkout or from an installed wheel.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WHOLE = (
    "adapters/highwater_adapters",
    "broker/highwater_broker",
    "compose/images",
    "controller/highwater_controller",
    "core/highwater_core",
    "harness/highwater/faults/links",
    "locks/node.txt",
    "locks/pipeline.txt",
    "planted/highwater_planted",
    "wire/highwater_wire",
)
PLANS = ("tests/plans", "tests/scenarios")
"""Of these only the plans: JSON files."""
INTO = "highwater/_sources"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling looks for this name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to a wheel; an editable install is of the checkout, which has them."""
        if version == "editable":
            return
        root, copies = Path(self.root), Path(self._copies.name)
        for path in _files(root):
            # A file that is included by its own path is left out of its package.
            copy = copies / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
            build_data["force_include"][str(copy)] = f"{INTO}/{path.relative_to(root)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._copies.cleanup()

    @cached_property
    def _copies(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="highwater-wheel-")


def _files(root: Path) -> Iterator[Path]:
    for name in (*WHOLE, *PLANS):
        wanted = root / name
        for path in sorted(wanted.rglob("*")) if wanted.is_dir() else [wanted]:
            is_wanted = path.suffix == ".json" if name in PLANS else path.suffix != ".pyc"
            if path.is_file() and is_wanted:
                yield path
