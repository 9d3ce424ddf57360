"""Builds the images of containers, each only when a source of it changed.

base.py     the bases: an official image where a registry answers, else Debian's packages
wheels.py   third-party packages, fetched on the host
tags.py     every image's tag, from the content of its sources; pure
build.py    builds missing images, lists and prunes images
"""

from __future__ import annotations

from highwater.cluster.images.build import (
    ensure_faults_image,
    ensure_images,
    ensure_planted_image,
    ensure_spark_image,
    list_images,
    prune_images,
)
from highwater.cluster.images.tags import ImageTags, image_tags

__all__ = [
    "ImageTags",
    "ensure_faults_image",
    "ensure_images",
    "ensure_planted_image",
    "ensure_spark_image",
    "image_tags",
    "list_images",
    "prune_images",
]
