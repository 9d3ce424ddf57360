"""Sizes of requests to ZooKeeper, compared with the bytes that its client library writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol import serialization
from kazoo.security import OPEN_ACL_UNSAFE

from highwater_core.ports import CheckOp, CreateOp, DeleteOp, MultiOp, SetOp
from highwater_core.request_sizes import (
    size_of_create,
    size_of_multi,
    size_of_path,
    size_of_set,
)

PATHS = st.text(st.characters(codec="utf-8"), max_size=20).map(lambda text: f"/{text}")
DATA = st.binary(max_size=20)
OPERATIONS = st.one_of(
    st.builds(CreateOp, PATHS, DATA, st.booleans()),
    st.builds(SetOp, PATHS, DATA),
    st.builds(DeleteOp, PATHS),
    st.builds(CheckOp, PATHS, st.just(3)),
)


def written(operation: MultiOp) -> serialization.NamedTuple:
    """The operation as kazoo's own record."""
    match operation:
        case CreateOp(path, data, ephemeral):
            flags = 1 if ephemeral else 0
            return serialization.Create(path, data, OPEN_ACL_UNSAFE, flags)
        case SetOp(path, data, version):
            return serialization.SetData(path, data, version)
        case DeleteOp(path, version):
            return serialization.Delete(path, version)
        case CheckOp(path, version):
            return serialization.CheckVersion(path, version)


def size(request: serialization.NamedTuple) -> int:
    """With the request's number and type, four bytes each."""
    return 8 + len(request.serialize())


@given(PATHS, DATA)
def test_one_operation_is_as_large_as_it_is_written(path: str, data: bytes) -> None:
    assert size_of_create(path, data) == size(written(CreateOp(path, data)))
    assert size_of_set(path, data) == size(written(SetOp(path, data)))
    assert size_of_path(path) == size(written(DeleteOp(path)))
    assert size_of_path(path) >= size(serialization.GetData(path, None))


@given(st.lists(OPERATIONS, max_size=4))
def test_a_multi_is_as_large_as_it_is_written(operations: list[MultiOp]) -> None:
    transaction = serialization.Transaction([written(operation) for operation in operations])
    assert size_of_multi(operations) == size(transaction)


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_a_text_that_no_packet_can_hold_has_a_size_all_the_same(text: str) -> None:
    assert size_of_path(text) > 0
