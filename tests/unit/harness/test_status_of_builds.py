"""`highwater status` says which nodes run which builds, where there are several."""

from __future__ import annotations

import pytest

from highwater.cluster.topology import Topology
from highwater.commands.status import ClusterStatus, NodeStatus, mixed_builds
from highwater_core.config import Preset
from highwater_core.ids import ControllerEpoch, NodeId
from highwater_core.messages import NodeSnapshot


def told(*builds: tuple[str, str] | None) -> ClusterStatus:
    """Return brokers that tell these builds and presets; None does not answer."""
    nodes = {
        node: NodeStatus(
            f"broker-{node}",
            "running",
            "",
            None
            if build is None
            else NodeSnapshot(
                NodeId(node), "broker", 1, build[1], ControllerEpoch(1), build=build[0]
            ),
        )
        for node, build in enumerate(builds)
    }
    return ClusterStatus("run", "", Topology(preset=Preset.CLASSIC), nodes)


@pytest.mark.parametrize(
    ("seen", "lines"),
    [
        (told(("a", "classic"), None, ("a", "classic")), ()),
        (
            told(("a", "classic"), ("", "classic"), None, ("a", "classic")),
            ("broker-0, broker-3: a", "broker-1: an older build"),
        ),
        (
            told(("a", "classic"), ("a", "kip101")),
            ("broker-0: a", "broker-1: a, preset kip101"),
        ),
    ],
    ids=["one build", "an older one", "another preset"],
)
def test_builds_are_told_where_they_differ(seen: ClusterStatus, lines: tuple[str, ...]) -> None:
    assert mixed_builds(seen) == lines
