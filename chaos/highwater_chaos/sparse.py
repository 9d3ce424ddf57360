"""Plans as people read them: without the fields that have their defaults."""

from __future__ import annotations

import msgspec


def without_defaults(value: msgspec.Struct) -> dict[str, object]:
    """Return the value's fields that differ from their defaults, in the order of declaration."""
    config = value.__struct_config__
    kept: dict[str, object] = {} if config.tag is None else {str(config.tag_field): config.tag}
    for field in msgspec.structs.fields(value):
        own = getattr(value, field.name)
        if field.required or own != _default_of(field):
            kept[field.name] = _plain(own)
    return kept


def _default_of(field: msgspec.structs.FieldInfo) -> object:
    return field.default_factory() if callable(field.default_factory) else field.default


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return without_defaults(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
