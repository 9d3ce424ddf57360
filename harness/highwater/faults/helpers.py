"""Helper containers, with the run's labels: for one task, or for as long as a fault lasts."""

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
    """Run a helper, remove it, and return its exit code, output and errors.

    place: the namespaces, volumes and capabilities that it gets, as the engine's create takes them.
        Without any it has no capability, and cannot write to its own disk.

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
    """Start a helper, and return its id; the engine removes the helper when it ends.

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
    """Start the helper; try again where the engine could not make its process.

    Nothing of the helper has run then. It happens on a busy machine, and while the node whose
    namespace the helper joins is ending.
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
