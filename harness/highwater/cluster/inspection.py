"""Asks nodes over gRPC: for snapshots of their state again and again, or for one answer once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import grpc

from highwater.errors import NodeUnreachable
from highwater_core.ids import Endpoint
from highwater_core.messages import ControlRequest, InspectRequest, NodeSnapshot
from highwater_wire.control import (
    MalformedControlMessage,
    decode_control_response,
    encode_control_request,
)

Response = TypeVar("Response")

_OPTIONS = (
    # A starting node is asked often: gRPC's own first pause of a second would take most of a
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
            NodeUnreachable: no answer in time, or an answer that is no snapshot.
        """
        call = self._call(endpoint)
        return _answer(
            endpoint,
            self._path,
            lambda: call(self._request, timeout=timeout_s, wait_for_ready=False),
            NodeSnapshot,
        )

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


def ask_once(
    endpoint: Endpoint, request: ControlRequest, kind: type[Response], *, timeout_s: float
) -> Response:
    """Return a node's answer of that kind; wait for a node that does not listen yet.

    Raises:
        NodeUnreachable: no answer in time, or one of another kind.
    """
    path, data = encode_control_request(request)
    with grpc.insecure_channel(str(endpoint), options=_OPTIONS) as channel:
        call: Callable[..., bytes] = channel.unary_unary(path)
        return _answer(
            endpoint, path, lambda: call(data, timeout=timeout_s, wait_for_ready=True), kind
        )


def _answer(
    endpoint: Endpoint, path: str, ask: Callable[[], bytes], kind: type[Response]
) -> Response:
    try:
        response = decode_control_response(path, ask())
    except grpc.RpcError as error:
        code = error.code().name if isinstance(error, grpc.Call) else type(error).__name__
        raise NodeUnreachable(f"{endpoint}: {code}") from error
    except MalformedControlMessage as error:
        raise NodeUnreachable(f"{endpoint}: {error}") from error
    if not isinstance(response, kind):
        raise NodeUnreachable(f"{endpoint}: answered {type(response).__name__}")
    return response
