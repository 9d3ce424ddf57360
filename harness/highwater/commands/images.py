"""`highwater images build|save|load|push|pull|key|list|prune`."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from highwater.cluster.engine import connect_engine
from highwater.cluster.images import (
    archive_key,
    ensure_faults_image,
    ensure_images,
    ensure_planted_image,
    ensure_spark_image,
    image_tags,
    list_images,
    load_images,
    prune_images,
    pull_images,
    push_images,
    read_own_archive,
    save_images,
)
from highwater.output import RESULTS, print_json, say
from highwater.project import project_root, runs_root


def register(app: typer.Typer) -> None:
    images = typer.Typer(no_args_is_help=True, help="The images that clusters run.")
    images.command("build")(build)
    images.command("save")(save)
    images.command("load")(load)
    images.command("push")(push)
    images.command("pull")(pull)
    images.command("key")(key)
    images.command("list")(show)
    images.command("prune")(prune)
    app.add_typer(images, name="images")


def build(
    every: Annotated[
        bool,
        typer.Option("--all", help="Also what faults on links, planted mistakes and Spark need."),
    ] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Also Spark's, 1.4 GB.")] = False,
    env_file: Annotated[
        Path | None,
        typer.Option(help="Write what compose reads there: tags, user, folder."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the tags as JSON.")] = False,
) -> None:
    """Build the missing images; an image is missing only when its sources changed."""
    engine = connect_engine()
    plan = ensure_images(engine, say)
    tags = {"node": plan.node, "zookeeper": plan.zookeeper}
    if every:
        tags["faults"] = ensure_faults_image(engine, say)
        tags["planted"] = ensure_planted_image(engine, say)
    if every or spark:
        tags["spark"] = ensure_spark_image(engine, say)
    if env_file is not None:
        env_file.write_text(plan.as_environment() + _for_whom_spark_works(), encoding="utf-8")
    if json:
        print_json(tags)
    else:
        typer.echo("\n".join(tags.values()))


def _for_whom_spark_works() -> str:
    """Return lines for an env file of compose: this user, and the folder runs/, which is made."""
    runs = runs_root()
    runs.mkdir(exist_ok=True)
    user = f"HIGHWATER_SPARK_USER={os.getuid()}:{os.getgid()}"
    return f"{user}\nHIGHWATER_SPARK_RUNS={runs.resolve()}\n"


def save(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="The tar to write, or to replace.")],
) -> None:
    """Save this version's images, all that clusters and their faults run, into one file.

    Missing images are built first. The file appears under its name once it is whole.
    """
    typer.echo("\n".join(save_images(connect_engine(), file, say)))


def load(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="A tar of `highwater images save`.")],
) -> None:
    """Load the images of a file instead of building them.

    A file that is torn, or of another version, is refused with exit code 2, and nothing is loaded.
    """
    found = read_own_archive(file)  # a file to be refused needs no engine
    typer.echo("\n".join(load_images(connect_engine(), file, found, say)))


_Repository = Annotated[
    str, typer.Argument(help="As registry.example.org/team/highwater; log in with `docker login`.")
]


def push(repository: _Repository) -> None:
    """Push this version's images, all that clusters and their faults run, to your registry.

    Missing images are built first. Names there end with this machine's processor.
    """
    typer.echo("\n".join(push_images(connect_engine(), repository, say)))


def pull(repository: _Repository) -> None:
    """Pull this version's images from your registry instead of building them.

    Where it has none of this version for this processor, that is told with exit code 2.
    """
    typer.echo("\n".join(pull_images(connect_engine(), repository, say)))


def key() -> None:
    """Print a name for this version's images on this machine, as a key for a CI's cache."""
    typer.echo(archive_key(image_tags(project_root()), platform.machine()))


def show(
    json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List Highwater's images; * marks those of the checkout's files."""
    listings = list_images(connect_engine())
    if json:
        print_json(listings)
        return
    table = Table("", "image", "size", "made (UTC)")
    for listing in listings:
        size = f"{listing.size_bytes / 1e6:.0f} MB"
        table.add_row("*" if listing.current else "", listing.tag, size, listing.created)
    RESULTS.print(table)


def prune() -> None:
    """Remove Highwater's images of earlier sources; images in use stay."""
    removed = prune_images(connect_engine())
    typer.echo("\n".join([*removed, f"{len(removed)} removed"]))
