"""Fail-points that are armed before a node's first step, by a file that a test puts on its volume.

SetFailPoint needs a node that serves; a start has fail-points too (recovery, registration).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from highwater_core.errors import ErrorCode
from highwater_core.fail_points import FailPoints
from highwater_core.messages import SetFailPointRequest
from highwater_core.ports import CannotStart

FILE_NAME = "fail_points.json"
"""Below the data folder: a JSON list of SetFailPointRequest."""

_DECODER: msgspec.json.Decoder[list[SetFailPointRequest]] = msgspec.json.Decoder(
    list[SetFailPointRequest]
)


def arm_at_start(node: Any, folder: Path) -> None:
    """Arm the fail-points of the file; without a file none (blocks).

    node: its `fail_points` are armed; a node without any has no file.

    Raises:
        CannotStart: the file is malformed, or names a fail-point that this node does not have.
    """
    try:
        requests = _DECODER.decode((folder / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return
    except msgspec.DecodeError as error:
        raise CannotStart(f"{FILE_NAME}: {error}") from error
    points: FailPoints = node.fail_points
    for request in requests:
        if points.answer(request).error is not ErrorCode.NONE:
            raise CannotStart(f"{FILE_NAME}: {request} is refused")
