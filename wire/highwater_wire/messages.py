"""Makes protobuf messages from a file's descriptor, by protobuf's public functions alone.

The modules that protoc writes refuse every protobuf that is older than it. A user's project has its
own protobuf, so ours are made of descriptors (scripts/generate-proto), which all of them read.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory


def define_messages(namespace: dict[str, Any], descriptor: bytes) -> None:
    """Put the file's message classes and enum values into the namespace, by their names.

    The file's own descriptor is DESCRIPTOR, as in protoc's modules.

    descriptor: a serialized FileDescriptorProto, whose imports were defined before.
    """
    file = descriptor_pool.Default().AddSerializedFile(descriptor)
    namespace["DESCRIPTOR"] = file
    for name, message in file.message_types_by_name.items():
        namespace[name] = message_factory.GetMessageClass(message)
    for enum in file.enum_types_by_name.values():
        namespace.update({value.name: value.number for value in enum.values})
