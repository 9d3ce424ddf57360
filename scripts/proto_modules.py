"""Writes a module for each .proto file: its descriptor, and a call that makes its messages.

Usage: python -m scripts.proto_modules DESCRIPTOR_SET FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

_BYTES_A_LINE = 60


def module_of(file: FileDescriptorProto) -> str:
    """Return the text of the file's module; its imports are modules beside it."""
    imports = "".join(f"import {_module_name(name)}\n" for name in sorted(file.dependency))
    return (
        f'"""The messages of proto/{file.name}. Written by scripts/generate-proto."""\n\n'
        f"{imports}from highwater_wire.messages import define_messages\n\n"
        f"define_messages(\n    globals(),\n{''.join(_lines(file.SerializeToString()))})\n"
    )


def _module_name(proto: str) -> str:
    return proto.removesuffix(".proto").replace("/", ".") + "_pb2"


def _lines(data: bytes) -> Iterator[str]:
    for begin in range(0, len(data), _BYTES_A_LINE):
        yield f"    {data[begin : begin + _BYTES_A_LINE]!r}\n"


def main() -> None:
    files = FileDescriptorSet.FromString(Path(sys.argv[1]).read_bytes())
    for file in files.file:
        path = Path(sys.argv[2], f"{_module_name(file.name).replace('.', '/')}.py")
        path.write_text(module_of(file), encoding="utf-8")


if __name__ == "__main__":
    main()
