"""The connection to the Docker engine, and how its containers are reached from here."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlparse

import docker
from docker.errors import DockerException

from highwater.errors import EngineMissing

CALL_TIMEOUT_S = 120
ENGINE_LOG = Path("/var/log/highwater-dockerd.log")
"""Of the engine that scripts/docker-engine starts."""


class Reach(StrEnum):
    """How this machine reaches a container's ports."""

    DIRECT = "direct"
    """By the container's own address: a local engine on Linux."""
    PUBLISHED = "published"
    """By ports published on the engine's host: Docker Desktop, or an engine elsewhere."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """How addresses are chosen.

    published_host: the address at which published ports answer.
    bind_host: the address on which they listen.
    """

    reach: Reach
    published_host: str
    bind_host: str


def connect_engine() -> docker.DockerClient:
    """Return a client of the engine that DOCKER_HOST names, or of the local one.

    Raises:
        EngineMissing: the engine does not answer; the message says what to do.
    """
    found = _client_or_reason()
    if not isinstance(found, str):
        return found
    _collect_failed_connection()
    where = os.environ.get("DOCKER_HOST")
    missing = EngineMissing(
        f"no Docker engine answers at DOCKER_HOST={where}: start it, or unset DOCKER_HOST"
        if where
        else "no Docker engine answers: run scripts/docker-engine"
    )
    missing.add_note(found)
    raise missing


def why_silent(within_s: int) -> str:
    """Return "" if the engine answers within that time, else what is wrong, and where its log is.

    within_s: of each of the two requests that it takes, seconds.
    """
    try:
        client = docker.from_env(timeout=within_s)
        try:
            client.ping()
        finally:
            client.close()
    except (DockerException, OSError) as error:
        _collect_failed_connection()
        docker_host = os.environ.get("DOCKER_HOST", "")
        at = f" at DOCKER_HOST={docker_host}" if docker_host else ""
        return (
            f"the Docker engine{at} answered before, and does not within {within_s} s; "
            f"{where_its_log_is(docker_host, ENGINE_LOG)} ({error})"
        )
    return ""


def where_its_log_is(docker_host: str, started_by_us: Path) -> str:
    """Return, in words, where the engine's log is."""
    if _is_elsewhere(docker_host):
        return "its log is on that machine"
    if started_by_us.exists():
        return f"its log is {started_by_us}"
    return "its log is shown by 'journalctl -u docker'"


def _client_or_reason() -> docker.DockerClient | str:
    try:
        client = docker.from_env(timeout=CALL_TIMEOUT_S)
        client.ping()
    except DockerException as error:
        return str(error)
    return client


def _collect_failed_connection() -> None:
    """Collect the socket that the client leaves open when it cannot connect.

    Otherwise it is collected amid another test, which fails where warnings are errors.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def engine_facts(engine: docker.DockerClient) -> EngineFacts:
    """Return how the engine's containers are reached from this process."""
    return decide_reach(
        docker_host=os.environ.get("DOCKER_HOST", ""),
        platform=sys.platform,
        operating_system=str(engine.info().get("OperatingSystem", "")),
    )


def decide_reach(*, docker_host: str, platform: str, operating_system: str) -> EngineFacts:
    """Return the facts; pure, so that every kind of engine is tested without one."""
    if _is_elsewhere(docker_host):
        hostname = urlparse(docker_host).hostname or "127.0.0.1"
        return EngineFacts(Reach.PUBLISHED, hostname, "0.0.0.0")  # noqa: S104
    direct = platform.startswith("linux") and "Docker Desktop" not in operating_system
    return EngineFacts(Reach.DIRECT if direct else Reach.PUBLISHED, "127.0.0.1", "127.0.0.1")


def _is_elsewhere(docker_host: str) -> bool:
    return urlparse(docker_host).scheme in ("tcp", "http", "https", "ssh")
