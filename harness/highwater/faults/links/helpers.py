"""Helper containers: labelled as a run's; for one piece of work, or until a fault is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import docker
from docker.errors import APIError
from requests.exceptions import RequestException

from highwater.cluster.labels import RunLabels

HELPER_KIND = "fault"
HELPER_WITHIN_S = 30
START_TRIES = 3
START_PAUSE_S = 0.2
NOT_MADE = "OCI runtime create failed"


def run_helper(
    engine: docker.DockerClient,
    image: str,
    command: Sequence[str],
    run: RunLabels,
    **place: Any,
) -> tuple[int, bytes, bytes]:
    """Return exit code, output and errors of a helper that has ended and been removed.

    place: where it works and what it may do there, as the engine's create takes it; without
    more it has no capability and cannot write to its own disk.

    Raises:
        requests.exceptions.RequestException: the engine refused (APIError), or did not answer.
    """
    helper = engine.containers.create(image, list(command), **_as_helper(run), **place)
    try:
        _start(helper)
        code = int(helper.wait(timeout=HELPER_WITHIN_S)["StatusCode"])
        return code, helper.logs(stderr=False), helper.logs(stdout=False)
    finally:
        helper.remove(v=True, force=True)


def begin_helper(engine: docker.DockerClient, image: str, run: RunLabels, **place: Any) -> str:
    """Return the id of a helper that goes on; the engine removes it when it ends by itself.

    place: as in run_helper.

    Raises:
        requests.exceptions.RequestException: the engine refused (APIError), or did not answer.
    """
    helper = engine.containers.create(image, auto_remove=True, **_as_helper(run), **place)
    try:
        _start(helper)
    except RequestException:  # it is refused (an APIError is one), or not answered in time
        helper.remove(v=True, force=True)
        raise
    return str(helper.id)


def _start(helper: Any) -> None:
    """Start it; where the engine could not make its process, once more: nothing of it has run.

    That happens on a busy machine, and where the node whose namespace it joins is just going.
    """
    for left in reversed(range(START_TRIES)):
        try:
            helper.start()
        except APIError as error:
            if not left or NOT_MADE not in str(error.explanation):
                raise
            time.sleep(START_PAUSE_S)
        else:
            return


def _as_helper(run: RunLabels) -> dict[str, Any]:
    return {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        "labels": run.as_labels(kind=HELPER_KIND),
    }
