"""The harness's errors; the first line of each message tells the user what to do."""

from __future__ import annotations

INTERRUPTED_EXIT_CODE = 130
"""Of a command that Ctrl-C ended after it had stored its results so far."""


class HarnessError(Exception):
    """The harness cannot go on; the command line prints the message and exits with 2."""


class EngineMissing(HarnessError):
    """No Docker engine answers."""


class ImageBuildFailed(HarnessError):
    """An image could not be made; the message ends with the builder's last lines."""


class ClusterStartFailed(HarnessError):
    """A cluster did not come up; the message ends with its nodes' state and log tails."""


class NoSuchRun(HarnessError):
    """No cluster of that id exists, or the id to choose is not clear."""


class NodeUnreachable(Exception):
    """A node did not answer an Inspect call: stopped, paused, cut off or slow."""
