"""ApiVersions: what this broker serves; also the answer to a version of it that is not served."""

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
    """Answers ApiVersions and every request that is not served."""

    def __init__(self, api_versions: tuple[ApiVersionRange, ...]) -> None:
        ranges = tuple(sorted(api_versions, key=lambda served: served.api_key))
        self._served = ApiVersionsResponse(ErrorCode.NONE, ranges)
        self._refused = ApiVersionsResponse(ErrorCode.INVALID_REQUEST, ())
        self._unsupported = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, ranges)

    async def handle(self, request: ApiVersionsRequest, listener: str) -> ApiVersionsResponse:
        """Return what is served, or INVALID_REQUEST to an illegal name (KIP-511)."""
        told = request.client_software_name, request.client_software_version
        if any(text is not None and not _LEGAL.fullmatch(text) for text in told):
            return self._refused
        return self._served

    async def handle_unsupported(
        self, request: UnsupportedRequest, listener: str
    ) -> ApiVersionsResponse:
        """Return UNSUPPORTED_VERSION with what is served: clients then ask in a lower version."""
        return self._unsupported
