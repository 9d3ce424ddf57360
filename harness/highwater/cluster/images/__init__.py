"""Builds the images of containers, each only when a source of it changed.

base.py     the bases: an official image where a registry answers, else Debian's packages
wheels.py   third-party packages, fetched on the host
tags.py     every image's tag, from the content of its sources; pure
build.py    builds missing images, lists and prunes images
archive.py  saves images into a file, and loads them from it
registry.py pushes images to a registry, and pulls them from it
"""

from __future__ import annotations

from highwater.cluster.images.archive import archive_key, load_images, read_own_archive, save_images
from highwater.cluster.images.build import (
    ensure_faults_image,
    ensure_images,
    ensure_planted_image,
    ensure_spark_image,
    list_images,
    prune_images,
)
from highwater.cluster.images.registry import pull_images, push_images
from highwater.cluster.images.tags import ImageTags, image_tags

__all__ = [
    "ImageTags",
    "archive_key",
    "ensure_faults_image",
    "ensure_images",
    "ensure_planted_image",
    "ensure_spark_image",
    "image_tags",
    "list_images",
    "load_images",
    "prune_images",
    "pull_images",
    "push_images",
    "read_own_archive",
    "save_images",
]
