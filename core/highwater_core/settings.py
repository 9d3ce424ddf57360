"""Reads a node's settings from environment variables into a frozen dataclass, types checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_origin, get_type_hints

import msgspec

S = TypeVar("S")

PREFIX = "HIGHWATER_"


class BadSetting(Exception):
    """A variable is missing, unknown or of the wrong type; the message names it."""


def read_settings(settings_type: type[S], environment: Mapping[str, str]) -> S:
    """Return the settings: field `x_ms` comes from HIGHWATER_X_MS; others keep their defaults.

    A mapping is a JSON object, or empty.

    Raises:
        BadSetting: a value is invalid, a field without a default has no variable, or a variable
            names no field (a misspelt setting must not silently have its default).
    """
    names = {PREFIX + field.name.upper() for field in dataclasses.fields(settings_type)}  # type: ignore[arg-type]
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in names)
    if unknown:
        raise BadSetting(f"no such setting: {', '.join(unknown)}")
    types = get_type_hints(settings_type)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(settings_type):  # type: ignore[arg-type]
        text = environment.get(PREFIX + field.name.upper())
        if text is None:
            continue
        kind = types[field.name]
        is_mapping = get_origin(kind) is Mapping
        values[field.name] = _read_mapping(field.name, text, kind) if is_mapping else text
    try:
        return msgspec.convert(values, settings_type, strict=False)
    except msgspec.ValidationError as error:
        raise BadSetting(f"{error} (settings are {PREFIX}... variables)") from error


def _read_mapping(name: str, text: str, kind: Any) -> Any:
    try:
        return msgspec.json.decode(text or "{}", type=kind)
    except msgspec.DecodeError as error:
        raise BadSetting(f"{PREFIX}{name.upper()}: {error}") from error
