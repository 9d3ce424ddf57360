"""Asks nodes for snapshots of their state over gRPC."""

from __future__ import annotations

import threading
from collections.abc import Callable

import grpc

from highwater.errors import NodeUnreachable
from highwater_core.ids import Endpoint
from highwater_core.messages import InspectRequest, NodeSnapshot
from highwater_wire.control import (
    MalformedControlMessage,
    decode_control_response,
    encode_control_request,
)

_OPTIONS = (
    # A node that starts is asked often: gRPC's own first pause of a second would be most of a
    # cluster's start.
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class Inspector:
    """One channel for each endpoint, made when it is first asked; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[Endpoint, tuple[grpc.Channel, Callable[..., bytes]]] = {}
        self._path, self._request = encode_control_request(InspectRequest())

    def snapshot(self, endpoint: Endpoint, *, timeout_s: float = 1.0) -> NodeSnapshot:
        """Return the node's state.

        Raises:
            NodeUnreachable: no answer in time, or one that is no snapshot.
        """
        try:
            answer = self._call(endpoint)(self._request, timeout=timeout_s, wait_for_ready=False)
            response = decode_control_response(self._path, answer)
        except grpc.RpcError as error:
            code = error.code().name if isinstance(error, grpc.Call) else type(error).__name__
            raise NodeUnreachable(f"{endpoint}: {code}") from error
        except MalformedControlMessage as error:
            raise NodeUnreachable(f"{endpoint}: {error}") from error
        if not isinstance(response, NodeSnapshot):
            raise NodeUnreachable(f"{endpoint}: answered {type(response).__name__}")
        return response

    def close(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, {}
        for channel, _ in calls.values():
            channel.close()

    def _call(self, endpoint: Endpoint) -> Callable[..., bytes]:
        with self._lock:
            if endpoint not in self._calls:
                channel = grpc.insecure_channel(str(endpoint), options=_OPTIONS)
                self._calls[endpoint] = (channel, channel.unary_unary(self._path))
            return self._calls[endpoint][1]
