"""The builds of a plan's nodes: which image and preset each node begins with. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

import msgspec

from highwater_core.config import Preset
from highwater_core.mixing import why_not_mixed

THIS = "this"
"""The image of the code that runs the plan."""
EVERY_NODE = "any"


class NodeBuild(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The image and the preset of a node; None: the cluster's preset.

    image: a tag of the engine, as highwater/node:0123456789ab, or without its repository.
    """

    image: str = THIS
    preset: Preset | None = None


SAME = NodeBuild()
"""What a node begins with of which the plan says nothing."""


def build_of(node: str, builds: Mapping[str, NodeBuild]) -> NodeBuild:
    """Return the build with which the node begins: its own, else that of every node."""
    return builds.get(node, builds.get(EVERY_NODE, SAME))


def presets_in(preset: Preset, others: Collection[Preset | None]) -> tuple[Preset, ...]:
    """Return the cluster's preset, and the other ones, each once."""
    return tuple(dict.fromkeys((preset, *(each for each in others if each is not None))))


def problems_of_builds(
    builds: Mapping[str, NodeBuild], presets: Collection[Preset], nodes: Collection[str]
) -> Iterator[str]:
    """Yield what is wrong with the builds of a cluster of these nodes.

    presets: all that the plan's nodes ever have.
    """
    for name, build in builds.items():
        if name != EVERY_NODE and name not in nodes:
            yield f"builds: there is no node {name!r}"
        if not build.image:
            yield f"builds: {name} has no image"
    for one, other in combinations(presets, 2):
        if why := why_not_mixed(one, other):
            yield why
