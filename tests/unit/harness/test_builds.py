"""One node's other build: its image, its container's configuration, and a replacement cut short."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound

from highwater.cluster import builds
from highwater.cluster.builds import (
    NodeBuild,
    NoNodeImage,
    NotUpgraded,
    config_of,
    find_image,
    finish_replacing,
    planted_in,
    tag_of,
    upgrade,
)
from highwater.cluster.clocks import with_movable_clock
from highwater.cluster.disks import on_faulty_disk
from highwater.cluster.topology import Topology
from highwater_core.config import Preset
from highwater_core.ids import ControllerEpoch, NodeId
from highwater_core.messages import NodeSnapshot

OLD, NEW = "highwater/node:aaaa", "highwater/node:bbbb"
BROKER = ["python", "-m", "highwater_broker"]
ON_FAULTY_DISK = ["python", "-m", "faulty_disk", "/data", "--"]


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("0a1b", "highwater/node:0a1b"),
        ("highwater/node:0a1b", "highwater/node:0a1b"),
        ("mine:0a1b", "mine:0a1b"),
        ("registry/mine", "registry/mine"),
    ],
)
def test_a_tag_without_a_repository_is_of_our_nodes(image: str, tag: str) -> None:
    assert tag_of(image) == tag


# ---------------------------------------------------------------- images


def image(kind: str | None, *variables: str) -> dict[str, Any]:
    labels = None if kind is None else {"org.highwater.image": kind}
    return {"Id": "sha256:0", "Config": {"Labels": labels, "Env": ["PATH=/bin", *variables]}}


class Images:
    def __init__(self, **by_key: dict[str, Any]) -> None:
        self._by_tag = {f"highwater/node:{key}": each for key, each in by_key.items()}
        self.images = self

    def get(self, tag: str) -> Any:
        if "!" in tag:
            raise APIError("bad", explanation="invalid reference")
        if tag not in self._by_tag:
            raise ImageNotFound("no such image")
        return SimpleNamespace(attrs=self._by_tag[tag])


ENGINE: Any = Images(
    old=image("node"),
    new=image("node", f"HIGHWATER_BUILD={NEW}"),
    base=image(None),
    spark=image("spark"),
)


def test_an_image_tells_its_build_if_it_is_new_enough() -> None:
    assert find_image(ENGINE, NodeBuild("old")).told == ""
    assert find_image(ENGINE, NodeBuild("new")).told == NEW


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (NodeBuild("none"), "the engine has no image highwater/node:none"),
        (NodeBuild("base"), "has no node of Highwater in it"),
        (NodeBuild("spark"), "has no node of Highwater in it"),
        (NodeBuild("a!"), "is no image: invalid reference"),
        (NodeBuild("new", planted="bug"), "has no planted bugs in it"),
    ],
)
def test_an_image_without_a_node_is_refused(build: NodeBuild, says: str) -> None:
    with pytest.raises(NoNodeImage, match=says):
        find_image(ENGINE, build)


def test_a_cluster_begins_with_images_that_there_are_and_presets_that_go_together() -> None:
    topology = Topology(preset=Preset.CLASSIC)

    def begins(build: NodeBuild | str) -> object:
        return builds.begin_with(ENGINE, {1: build}, topology, lambda text: None)

    assert begins("old") == {1: NodeBuild("highwater/node:old")}
    with pytest.raises(NoNodeImage):
        begins("none")
    with pytest.raises(builds.CannotMix, match="classic and v2"):
        begins(NodeBuild("old", Preset.V2))


# ---------------------------------------------------------------- containers


def seen(command: list[str], **state: str) -> dict[str, Any]:
    return {
        "State": {"Status": "running", **state},
        "Config": {
            "Image": OLD,
            "Hostname": "broker-1",
            "User": "0" if command[0:3] == ON_FAULTY_DISK[0:3] else "highwater",
            "Cmd": command,
            "Env": ["PATH=/old/bin", "HIGHWATER_PRESET=classic", f"HIGHWATER_BUILD={OLD}"],
            "Labels": {"org.highwater.run": "r", "org.highwater.image": "node", "maker": "me"},
            "ExposedPorts": {"9094/tcp": {}},
        },
        "HostConfig": {"Binds": ["volume:/var/lib/highwater:rw"]},
    }


def test_only_what_the_harness_gave_a_container_goes_over_to_another_image() -> None:
    made = config_of(seen(BROKER), NodeBuild(NEW), "net", "10.0.0.11")
    assert made == {
        "Image": NEW,
        "Hostname": "broker-1",
        "Cmd": BROKER,
        "Env": ["HIGHWATER_PRESET=classic"],
        "Labels": {"org.highwater.run": "r"},
        "ExposedPorts": {"9094/tcp": {}},
        "HostConfig": {"Binds": ["volume:/var/lib/highwater:rw"]},
        "NetworkingConfig": {
            "EndpointsConfig": {
                "net": {"IPAMConfig": {"IPv4Address": "10.0.0.11"}, "Aliases": ["broker-1"]}
            }
        },
    }


def test_another_preset_takes_the_place_of_the_old_one() -> None:
    made = config_of(seen(BROKER), NodeBuild(NEW, Preset.KIP101), "net", "10.0.0.11")
    assert made["Env"] == ["HIGHWATER_PRESET=kip101"]


PLANTED = ["python", "-m", "highwater_planted", "bug", "highwater_broker"]


@pytest.mark.parametrize(
    ("old", "bug", "new"),
    [
        (BROKER, "", BROKER),
        (PLANTED, "", BROKER),
        (BROKER, "bug", PLANTED),
        ([*ON_FAULTY_DISK, *PLANTED], "", [*ON_FAULTY_DISK, *BROKER]),
        ([*ON_FAULTY_DISK, *BROKER], "bug", [*ON_FAULTY_DISK, *PLANTED]),
    ],
)
def test_a_planted_bug_comes_and_goes_with_the_build(
    old: list[str], bug: str, new: list[str]
) -> None:
    made = config_of(seen(old), NodeBuild(NEW, planted=bug), "net", "10.0.0.11")
    assert made["Cmd"] == new
    assert planted_in(new) == bug
    assert made.get("User") == ("0" if old[0:3] == ON_FAULTY_DISK[0:3] else None)


@pytest.mark.parametrize("disk", [list, on_faulty_disk])
def test_a_clock_that_can_be_moved_stays_so_in_another_image(
    disk: Callable[[list[str]], list[str]],
) -> None:
    old, new = (disk(with_movable_clock(command)) for command in (PLANTED, BROKER))
    assert config_of(seen(old), NodeBuild(NEW), "net", "10.0.0.11")["Cmd"] == new
    planted = NodeBuild(NEW, planted="bug")
    assert config_of(seen(new), planted, "net", "10.0.0.11")["Cmd"] == old


# ---------------------------------------------------------------- an upgrade


class FakeCluster:
    """One node whose containers are known by name, and by the image that they have.

    comes_up: whether the node answers with an image. breaks: the engine's call that fails.
    """

    run_id, network_name = "r", "net"

    def __init__(self, comes_up: bool = True, breaks: str = "") -> None:
        self.topology = Topology(preset=Preset.CLASSIC)
        self.builds: dict[NodeId, list[str]] = {}
        self.there = {"broker-1": OLD}
        self.made = {"broker-1": 0}
        """By the container's name: how many were made before it."""
        self.moved: dict[str, str] = {}
        """By tag: the image that has it now."""
        self.status, self.incarnation = "running", 1
        self._comes_up, self._breaks = comes_up, breaks
        self.engine = self.api = self.images = self

    def container_name(self, node: int) -> str:
        return "broker-1"

    def address(self, node: int) -> str:
        return "10.0.0.11"

    # the engine

    def inspect_container(self, name: str) -> dict[str, Any]:
        found = seen(BROKER, Status=self.status)
        found["Config"]["Image"] = found["Image"] = self.there[name]
        found["Id"] = self.made[name]
        return found

    def get(self, tag: str) -> SimpleNamespace:
        return SimpleNamespace(id=self.moved.get(tag, tag))

    def containers(self, *, all: bool, filters: object) -> list[dict[str, Any]]:  # noqa: A002
        return [{"Names": [f"/{name}"]} for name in self.there]

    def create_container_from_config(self, config: dict[str, Any], name: str) -> None:
        self._may_break(f"create {name}")
        self.there[name] = config["Image"]
        self.made[name] = max(self.made.values()) + 1

    def rename(self, name: str, other: str) -> None:
        self._may_break(f"rename {name} {other}")
        self.there[other] = self.there.pop(name)
        self.made[other] = self.made.pop(name, 0)

    def remove_container(self, name: str) -> None:
        self._may_break(f"remove {name}")
        del self.there[name]
        self.made.pop(name, None)

    def _may_break(self, call: str) -> None:
        if call == self._breaks:
            self._breaks = ""
            raise APIError("refused", explanation=call)

    # the cluster

    def terminate(self, node: int, *, within_s: int = 20) -> int:
        self.status = "exited"
        return 0

    def start(self, node: int) -> None:
        self.incarnation += 1
        is_old = self.there["broker-1"] == OLD
        self.status = "running" if is_old or self._comes_up else "exited"

    def exit_code(self, node: int) -> int | None:
        return 3 if self.status == "exited" else None

    def logs(self, node: int, *, tail: int) -> str:
        return "no such setting"

    def try_snapshot(self, node: int) -> NodeSnapshot | None:
        if self.status != "running":
            return None
        told = NEW if self.there["broker-1"] == NEW else ""
        return NodeSnapshot(
            NodeId(1), "broker", self.incarnation, "classic", ControllerEpoch(1), build=told
        )


@pytest.fixture
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builds.FoundImage(NEW, NEW, NEW)
    monkeypatch.setattr(builds, "find_image", lambda engine, build: found)
    monkeypatch.setattr(builds, "keep_log", lambda engine, name: None)
    monkeypatch.setattr(builds, "_incarnation", lambda cluster, node: cluster.incarnation)


def upgraded(cluster: FakeCluster, **fields: Any) -> builds.Upgraded:
    any_cluster: Any = cluster
    return upgrade(any_cluster, 1, NodeBuild("bbbb", **fields), cluster.start)


@pytest.mark.usefixtures("_engine")
def test_a_node_runs_its_new_image_in_place_of_the_old_one() -> None:
    cluster = FakeCluster()
    done = upgraded(cluster)
    assert (done.before, done.after) == (OLD, NEW)
    assert f"the node tells build {NEW}, preset classic, incarnation 2" in done.proof
    assert cluster.there == {"broker-1": NEW}
    assert cluster.builds == {1: [OLD, NEW]}


@pytest.mark.usefixtures("_engine")
def test_a_node_that_does_not_come_up_runs_its_old_image_again() -> None:
    cluster = FakeCluster(comes_up=False)
    with pytest.raises(NotUpgraded, match="exit code 3: no such setting") as error:
        upgraded(cluster)
    assert str(error.value).endswith(f"it runs {OLD} again")
    assert (cluster.there, cluster.status) == ({"broker-1": OLD}, "running")
    assert cluster.builds == {}


@pytest.mark.usefixtures("_engine")
def test_a_node_that_tells_another_preset_is_not_upgraded() -> None:
    with pytest.raises(NotUpgraded, match="it has preset classic, not kip101"):
        upgraded(FakeCluster(), preset=Preset.KIP101)


@pytest.mark.usefixtures("_engine")
def test_a_node_that_tells_another_build_is_not_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    other = builds.FoundImage(NEW, NEW, "highwater/node:cccc")
    monkeypatch.setattr(builds, "find_image", lambda engine, build: other)
    with pytest.raises(NotUpgraded, match=f"it runs '{NEW}', not 'highwater/node:cccc'"):
        upgraded(FakeCluster())


def test_zookeeper_has_no_build_of_ours() -> None:
    cluster: Any = FakeCluster()
    with pytest.raises(NotUpgraded, match="node 2000 is no broker and no controller"):
        upgrade(cluster, 2000, NodeBuild("bbbb"), cluster.start)


@pytest.mark.usefixtures("_engine")
def test_a_node_that_is_down_is_not_upgraded() -> None:
    cluster = FakeCluster()
    cluster.status = "exited"
    with pytest.raises(NotUpgraded, match="node 1 is exited, not running"):
        upgraded(cluster)


@pytest.mark.usefixtures("_engine")
def test_presets_that_cannot_be_mixed_leave_the_node_as_it_is() -> None:
    cluster = FakeCluster()
    with pytest.raises(builds.CannotMix, match="presets classic and fenced"):
        upgraded(cluster, preset=Preset.FENCED)
    assert (cluster.there, cluster.incarnation) == ({"broker-1": OLD}, 1)


@pytest.mark.usefixtures("_engine")
def test_a_node_whose_old_container_is_still_there_is_only_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found: on a full disk its output could not be kept, twice, and the node stayed down."""

    def refuses(engine: object, name: str) -> None:
        raise APIError("refused", explanation="no space left on device")

    monkeypatch.setattr(builds, "keep_log", refuses)
    cluster = FakeCluster()
    with pytest.raises(NotUpgraded, match=f"no space left on device.*it runs {OLD} again"):
        upgraded(cluster)
    assert (cluster.there, cluster.status) == ({"broker-1": OLD}, "running")
    assert cluster.made == {"broker-1": 0}


@pytest.mark.usefixtures("_engine")
def test_a_node_whose_start_fails_half_way_runs_its_old_image_again() -> None:
    """Found: a link's rules could not be loaded; the step was missed, and the new image ran on."""
    cluster = FakeCluster()

    def start(node: int) -> None:
        cluster.start(node)
        if cluster.there["broker-1"] == NEW:
            raise LookupError("the rules of its links could not be loaded")

    any_cluster: Any = cluster
    with pytest.raises(NotUpgraded, match=f"could not be loaded; it runs {OLD} again"):
        upgrade(any_cluster, 1, NodeBuild("bbbb"), start)
    assert (cluster.there, cluster.builds) == ({"broker-1": OLD}, {})


@pytest.mark.usefixtures("_engine")
def test_a_node_gets_its_old_image_back_where_another_one_has_its_tag_now() -> None:
    """Found: with `--image latest` the node got the image again that had not come up."""
    cluster = FakeCluster(comes_up=False)
    inspect = cluster.inspect_container

    def by_id(name: str) -> dict[str, Any]:
        found = inspect(name)
        return {**found, "Image": "sha256:1"} if cluster.there[name] == OLD else found

    cluster.inspect_container = by_id  # type: ignore[method-assign]
    cluster.moved = {OLD: "sha256:2"}
    with pytest.raises(NotUpgraded, match="does not come up"):
        upgraded(cluster)
    assert cluster.there == {"broker-1": "sha256:1"}


CALLS = (
    "create broker-1-next",
    "rename broker-1 broker-1-old",
    "rename broker-1-next broker-1",
    "remove broker-1-old",
)


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("call", CALLS)
def test_a_replacement_that_the_engine_refuses_leaves_the_old_image(call: str) -> None:
    cluster = FakeCluster(breaks=call)
    with pytest.raises(NotUpgraded, match=f"it runs {OLD} again"):
        upgraded(cluster)
    assert (cluster.there, cluster.status) == ({"broker-1": OLD}, "running")


@pytest.mark.parametrize(
    ("there", "left"),
    [
        ({"": OLD}, OLD),
        ({"": OLD, "-next": NEW}, OLD),
        ({"-old": OLD, "-next": NEW}, OLD),
        ({"-old": OLD, "": NEW}, NEW),
        ({"-next": NEW}, NEW),
    ],
)
def test_wherever_a_replacement_was_cut_short_the_node_has_one_container_then(
    there: dict[str, str], left: str
) -> None:
    cluster: Any = FakeCluster()
    cluster.there = {f"broker-1{ending}": image for ending, image in there.items()}
    assert bool(finish_replacing(cluster, 1)) is (list(there) != [""])
    assert cluster.there == {"broker-1": left}
    assert finish_replacing(cluster, 1) == ""
