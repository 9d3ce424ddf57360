"""What single nodes run: an image of another build, another preset; and one node's upgrade.

A node is upgraded as an operator would: it is asked to stop, its container is removed, and another
one is made on the same volume, with the same name, address, ports and labels. All but the image is
read from the old container, so a cluster that another process brought up can be upgraded too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound

from highwater.cluster import labels
from highwater.cluster.container_files import read_archive
from highwater.cluster.disks import DATA_FOLDER
from highwater.cluster.images import ensure_images, ensure_planted_image
from highwater.cluster.images.build import Say
from highwater.cluster.node_logs import keep_log
from highwater.cluster.topology import Topology
from highwater.errors import HarnessError
from highwater.waiting import eventually
from highwater_chaos.builds import THIS
from highwater_core.config import Preset
from highwater_core.ids import NodeId
from highwater_core.messages import NodeSnapshot
from highwater_core.mixing import why_not_mixed
from highwater_core.settings import PREFIX

if TYPE_CHECKING:
    from highwater.cluster.cluster import Cluster

COMES_UP_WITHIN_S = 60.0
SHUTS_DOWN_WITHIN_S = 60
"""Longer than a broker asks the controller for its shutdown, by its settings."""
NODE_IMAGE = "highwater/node"
BUILD_VARIABLE = f"{PREFIX}BUILD"
"""The image has it: its tag, which its nodes tell. Images of older versions have none."""
_PRESET_VARIABLE = f"{PREFIX}PRESET"
_PLANTED_PROGRAM = "highwater_planted"
_KINDS = ("node", "planted")
_TAIL_LINES = 5
_NEXT, _OLD = "-next", "-old"
"""Endings of the names of a node's two containers, while one replaces the other."""


class NoNodeImage(HarnessError):
    """The engine has no such image, or there is no node of Highwater in it."""


class CannotMix(HarnessError):
    """Nodes of these presets do not work together; the message says why."""


class NotUpgraded(HarnessError):
    """The node runs what it ran before, or is down; the message says which, and why."""


@dataclass(frozen=True, slots=True)
class NodeBuild:
    """What a node runs. preset: None for the cluster's; planted: a bug of highwater_planted.

    image: a tag of the engine; one without a repository is of highwater/node. "this": the image of
    the checkout's files.
    """

    image: str = THIS
    preset: Preset | None = None
    planted: str = ""

    def __str__(self) -> str:
        """The image, and how the node differs from the cluster's other nodes."""
        preset = "" if self.preset is None else f", preset {self.preset}"
        return self.image + preset + (f", planted bug {self.planted}" if self.planted else "")


@dataclass(frozen=True, slots=True)
class FoundImage:
    """An image of the engine. told: the tag that its nodes tell, "" of older versions."""

    tag: str
    image_id: str
    told: str


@dataclass(frozen=True, slots=True)
class Upgraded:
    """An upgrade of one node. before, after: its builds; proof: how the new one is seen to run."""

    before: str
    after: str
    proof: str


# ---------------------------------------------------------------- images


def tag_of(image: str) -> str:
    """Return the tag that is meant: one of highwater/node where no repository is named."""
    return image if "/" in image or ":" in image else f"{NODE_IMAGE}:{image}"


def find_image(
    engine: docker.DockerClient, build: NodeBuild, say: Say = lambda text: None
) -> FoundImage:
    """Return the build's image, which has a node in it; "this" is built if it is missing.

    Raises:
        NoNodeImage: the engine has no such image, or it is no node's.
        ImageBuildFailed: "this" could not be made.
    """
    if build.image == THIS:
        tag = ensure_images(engine, say).node
        tag = ensure_planted_image(engine, say) if build.planted else tag
    else:
        tag = tag_of(build.image)
    try:
        attributes = engine.images.get(tag).attrs
    except ImageNotFound as error:
        shown = "'highwater images list' lists those that it has"
        raise NoNodeImage(f"the engine has no image {tag}; {shown}") from error
    except APIError as error:
        raise NoNodeImage(f"{tag!r} is no image: {error.explanation}") from error
    config = attributes["Config"]
    kind = (config.get("Labels") or {}).get(labels.IMAGE)
    if kind not in _KINDS:
        raise NoNodeImage(f"image {tag} has no node of Highwater in it")
    if build.planted and kind != "planted":
        raise NoNodeImage(f"image {tag} has no planted bugs in it")
    told = _variables(config).get(BUILD_VARIABLE, "")
    return FoundImage(tag, str(attributes["Id"]), told)


def begin_with(
    engine: docker.DockerClient,
    wanted: Mapping[int, NodeBuild | str],
    topology: Topology,
    say: Say,
) -> dict[NodeId, NodeBuild]:
    """Return what single nodes of the cluster begin with, with their images' tags.

    wanted: by node; a string is an image.

    Raises:
        NoNodeImage, ImageBuildFailed: there is no such image.
        CannotMix: a node's preset cannot be mixed with the cluster's.
    """
    found = {}
    for node, asked in wanted.items():
        build = NodeBuild(asked) if isinstance(asked, str) else asked
        check_mixing(topology.preset, build.preset)
        found[NodeId(node)] = replace(build, image=find_image(engine, build, say).tag)
    return found


def check_mixing(preset: Preset, other: Preset | None) -> None:
    """Return if a node of the other preset may be in a cluster of the first; None: no other.

    Raises:
        CannotMix: it may not; the message says why.
    """
    if why := why_not_mixed(preset, other or preset):
        raise CannotMix(why)


def _variables(config: Mapping[str, Any]) -> dict[str, str]:
    pairs = (each.partition("=") for each in config.get("Env") or ())
    return {name: value for name, _, value in pairs}


# ---------------------------------------------------------------- containers


def command_of(module: str, planted: str) -> list[str]:
    """Return the command that runs a node's module, with a planted bug or "" for none."""
    return ["python", "-m", *([_PLANTED_PROGRAM, planted] if planted else []), module]


def planted_in(command: list[str]) -> str:
    """Return the planted bug of a node's command, "" for none."""
    return command[-2] if command[-3:-2] == [_PLANTED_PROGRAM] else ""


def config_of(
    seen: Mapping[str, Any],
    build: NodeBuild,
    network: str,
    address: str,
) -> dict[str, Any]:
    """Return a container's configuration: as that of the one seen, but with the build's image.

    seen: what the engine says of the container. Of its variables and labels only those that the
    harness gave it are taken: the others are its image's.
    build: with the image's tag; preset None: as it is.
    """
    old = seen["Config"]
    variables = {name: value for name, value in _variables(old).items() if name.startswith(PREFIX)}
    variables.pop(BUILD_VARIABLE, None)
    if build.preset is not None:
        variables[_PRESET_VARIABLE] = build.preset.value
    command = list(old["Cmd"])
    program = command[: -3 if not planted_in(command) else -5]  # before the node's own
    name = old["Hostname"]
    own = {key: text for key, text in old["Labels"].items() if key.startswith(labels.NAMESPACE)}
    own.pop(labels.IMAGE, None)
    config = {
        "Image": build.image,
        "Hostname": name,
        "Cmd": [*program, *command_of(command[-1], build.planted)],
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "Labels": own,
        "ExposedPorts": old.get("ExposedPorts") or {},
        "HostConfig": seen["HostConfig"],
        "NetworkingConfig": {
            "EndpointsConfig": {
                network: {"IPAMConfig": {"IPv4Address": address}, "Aliases": [name]}
            }
        },
    }
    # The program of a faulty disk begins as another user than the image's.
    return {**config, "User": old["User"]} if program else config


# ---------------------------------------------------------------- the upgrade


def upgrade(
    cluster: Cluster, node: int, build: NodeBuild, start: Callable[[int], None]
) -> Upgraded:
    """Have the node run another build, and prove that it does.

    build: preset None: the one that it has. start: starts a stopped node; may raise any error.
    A node that does not come up runs its old image again.

    Raises:
        NoNodeImage, ImageBuildFailed: there is no such image; the node runs as before.
        CannotMix: its preset cannot be mixed with the cluster's.
        NotUpgraded: it is no broker or controller, does not run, did not come up, or is not seen
            to run the image.
    """
    if node not in cluster.topology.node_ids:
        raise NotUpgraded(f"node {node} is no broker and no controller")
    check_mixing(cluster.topology.preset, build.preset)
    found = find_image(cluster.engine, build)
    seen = cluster.engine.api.inspect_container(cluster.container_name(node))
    if seen["State"]["Status"] != "running":
        raise NotUpgraded(f"node {node} is {seen['State']['Status']}, not running")
    before = _build_seen(seen)
    code = cluster.terminate(node, within_s=SHUTS_DOWN_WITHIN_S)
    incarnation = _incarnation(cluster, node)
    preset = build.preset or before.preset
    after = NodeBuild(found.tag, preset, build.planted)
    try:
        _replace(cluster, node, seen, after)
        start(node)
        told = _await_answer(cluster, node, incarnation)
        proof = _proof(cluster, node, found, after, told)
    except Exception as error:
        back = _put_back(cluster, node, seen, before, start)
        raise NotUpgraded(f"it does not come up with {found.tag}: {error}; {back}") from error
    was, runs = (str(_beside(cluster.topology.preset, each)) for each in (before, after))
    cluster.builds.setdefault(NodeId(node), [was]).append(runs)
    return Upgraded(was, runs, f"exit code {code}; {proof}")


def _beside(preset: Preset, build: NodeBuild) -> NodeBuild:
    """Return the build as it differs from those of other nodes of a cluster of that preset."""
    return replace(build, preset=None) if build.preset == preset else build


def _build_seen(seen: Mapping[str, Any]) -> NodeBuild:
    config = seen["Config"]
    preset = _variables(config).get(_PRESET_VARIABLE)
    planted = planted_in(list(config["Cmd"]))
    return NodeBuild(str(config["Image"]), None if preset is None else Preset(preset), planted)


def _replace(cluster: Cluster, node: int, seen: Mapping[str, Any], build: NodeBuild) -> None:
    """Make another container in place of the node's, which is stopped.

    Ordering: the old one is there until the new one is made; see finish_replacing.
    """
    api, name = cluster.engine.api, cluster.container_name(node)
    config = config_of(seen, build, cluster.network_name, cluster.address(node))
    api.create_container_from_config(config, name + _NEXT)  # type: ignore[no-untyped-call]
    keep_log(cluster.engine, name)
    api.rename(name, name + _OLD)
    api.rename(name + _NEXT, name)
    api.remove_container(name + _OLD)


def finish_replacing(cluster: Cluster, node: int) -> str:
    """Leave the node one container, where a harness died while it replaced it; say so in words.

    The old one, unless the new one has its name already. Returns "" if there is one container.
    """
    api, name = cluster.engine.api, cluster.container_name(node)
    of_node = [f"{labels.RUN}={cluster.run_id}", f"{labels.NODE}={node}"]
    found = api.containers(all=True, filters={"label": of_node})
    there = {str(each).removeprefix("/") for container in found for each in container["Names"]}
    left = [each for each in (name + _OLD, name + _NEXT) if each in there]
    if not left:
        return ""
    if name not in there:
        api.rename(left.pop(0), name)
    for each in left:
        api.remove_container(each)
    return "a replacement of its container was not finished"


def _await_answer(cluster: Cluster, node: int, above_incarnation: int) -> NodeSnapshot:
    """Return the first answer of the node's next incarnation.

    Raises:
        NotUpgraded: its process ended.
        NeverHappened: there was none in time.
    """

    def answers() -> NodeSnapshot | None:
        told = cluster.try_snapshot(node)
        if told is not None and told.incarnation > above_incarnation:
            return told
        code = cluster.exit_code(node)
        if code is not None:
            lines = cluster.logs(node, tail=_TAIL_LINES).strip()
            raise NotUpgraded(f"its process ended with exit code {code}: {lines}")
        return None

    told: NodeSnapshot = eventually(
        answers,
        within=COMES_UP_WITHIN_S,
        what=f"node {node} answers",
        state=lambda: cluster.logs(node, tail=_TAIL_LINES),
    )
    return told


def _proof(
    cluster: Cluster, node: int, found: FoundImage, build: NodeBuild, told: NodeSnapshot
) -> str:
    """Return how the build is seen to run.

    Raises:
        NotUpgraded: the engine or the node tells of another one.
    """
    image_id = cluster.engine.api.inspect_container(cluster.container_name(node))["Image"]
    if image_id != found.image_id:
        raise NotUpgraded(f"the engine says that it runs {image_id}, not {found.image_id}")
    if told.build != found.told:
        raise NotUpgraded(f"the node says that it runs {told.build!r}, not {found.told!r}")
    if build.preset is not None and told.preset != build.preset:
        raise NotUpgraded(f"the node says that it has preset {told.preset}, not {build.preset}")
    itself = f"the node tells build {told.build}" if told.build else "the node tells no build"
    return (
        f"the engine runs {found.tag} ({image_id[7:19]}), {itself}, preset {told.preset}, "
        f"incarnation {told.incarnation}"
    )


def _put_back(
    cluster: Cluster,
    node: int,
    seen: Mapping[str, Any],
    before: NodeBuild,
    start: Callable[[int], None],
) -> str:
    """Have the node run its old image again, and return in words whether it does.

    Its old container does not need to be made again where it is still there.
    """
    try:
        finish_replacing(cluster, node)
        cluster.terminate(node)
        there = cluster.engine.api.inspect_container(cluster.container_name(node))
        if there["Id"] != seen["Id"]:
            _replace(cluster, node, seen, replace(before, image=_image_of(cluster, seen)))
        incarnation = _incarnation(cluster, node)
        start(node)
        _await_answer(cluster, node, incarnation)
    except Exception as error:  # noqa: BLE001 (told)
        return f"nor with {before.image} again: {error}"
    return f"it runs {before.image} again"


def _image_of(cluster: Cluster, seen: Mapping[str, Any]) -> str:
    """Return the tag of the container's image, or its id where the tag is another image's now."""
    tag, image_id = str(seen["Config"]["Image"]), str(seen["Image"])
    try:
        is_same = str(cluster.engine.images.get(tag).id) == image_id
    except ImageNotFound:
        return image_id
    return tag if is_same else image_id


def _incarnation(cluster: Cluster, node: int) -> int:
    """Return the number of the stopped node's last start, 0 where it cannot be read."""
    path = f"{DATA_FOLDER}/incarnation"
    try:
        ((_, content),) = read_archive(cluster.engine, cluster.container_name(node), path)
        return int(content)
    except (NotFound, ValueError):
        return 0
