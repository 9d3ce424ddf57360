"""Images in a registry: each architecture has its names, and no other image is taken for one."""

from __future__ import annotations

import pytest

from highwater.cluster import labels
from highwater.cluster.images.registry import names_in_registry, why_not

NODE = "highwater/node:0123456789ab"


@pytest.mark.parametrize(
    ("repository", "machine", "there"),
    [
        ("r.example.org/team", "amd64", ("r.example.org/team/node", "0123456789ab-amd64")),
        ("r.example.org/team/", "arm64", ("r.example.org/team/node", "0123456789ab-arm64")),
        ("localhost:5000/x/y", "amd64", ("localhost:5000/x/y/node", "0123456789ab-amd64")),
    ],
)
def test_an_image_has_its_architecture_in_its_name(
    repository: str, machine: str, there: tuple[str, str]
) -> None:
    assert names_in_registry(repository, [NODE], machine) == {NODE: there}


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ({"Architecture": "amd64", "Config": {"Labels": {labels.IMAGE: "node"}}}, ""),
        (
            {"Architecture": "arm64", "Config": {"Labels": {labels.IMAGE: "node"}}},
            "is for arm64, and the engine is amd64",
        ),
        (
            {"Architecture": "amd64", "Config": {"Labels": {labels.IMAGE: "zookeeper"}}},
            "its label org.highwater.image is 'zookeeper'",
        ),
        ({"Architecture": "amd64", "Config": {"Labels": None}}, "is None"),
        ({"Architecture": "amd64", "Config": None}, "is None"),
        ({}, "is None"),
    ],
)
def test_another_image_under_the_name_is_refused(image: dict[str, object], told: str) -> None:
    found = why_not(NODE, image, "amd64")
    assert told in found
    assert bool(told) == bool(found)
