"""ApiVersions: the versions that this broker serves, also as the answer to an unserved version."""

from __future__ import annotations

import re

from highwater_core.errors import ErrorCode
from highwater_wire.kafka.messages import (
    ApiVersionRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
    UnsupportedRequest,
)

_LEGAL = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


class ApiVersionsHandler:
    """Answers ApiVersions and every unserved request."""

    def __init__(self, api_versions: tuple[ApiVersionRange, ...]) -> None:
        ranges = tuple(sorted(api_versions, key=lambda served: served.api_key))
        self._served = ApiVersionsResponse(ErrorCode.NONE, ranges)
        self._refused = ApiVersionsResponse(ErrorCode.INVALID_REQUEST, ())
        self._unsupported = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, ranges)

    async def handle(self, request: ApiVersionsRequest, listener: str) -> ApiVersionsResponse:
        """Return the served versions, or INVALID_REQUEST for an illegal name (KIP-511)."""
        told = request.client_software_name, request.client_software_version
        if any(text is not None and not _LEGAL.fullmatch(text) for text in told):
            return self._refused
        return self._served

    async def handle_unsupported(
        self, request: UnsupportedRequest, listener: str
    ) -> ApiVersionsResponse:
        """Return UNSUPPORTED_VERSION with the served versions: clients then use a lower one."""
        return self._unsupported
