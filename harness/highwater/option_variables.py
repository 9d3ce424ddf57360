"""Every option's environment variable: HIGHWATER_UP_BROKERS=5 is `highwater up --brokers 5`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

PREFIX = "HIGHWATER"


def variable_of(path: tuple[str, ...], option: str) -> str:
    """Return the variable of an option, as "--keep-gib", of the command at that path of names."""
    words = "_".join((PREFIX, *path, option.lstrip("-")))
    return re.sub(r"\W", "_", words).upper()


def read_variables(command: Any, environment: Mapping[str, str]) -> None:
    """Let every option below the command take its variable's value where it is not given.

    Help and errors name the variables that are set, and no others: they are long.
    """
    # Not typer's own auto_envvar_prefix: its names are those of Python's parameters.
    for path, option in options_below(command):
        longest = max(option.opts, key=len)
        option.envvar = variable_of(path, longest)
        option.show_envvar = option.envvar in environment


def options_below(
    command: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each option of each command of the group, with the command's names.

    The group's own options are left out, as --version: HIGHWATER_VERSION may be anything.
    """
    for name, below in getattr(command, "commands", {}).items():
        of_command = (*path, name)
        for parameter in below.params:
            if parameter.param_type_name == "option":
                yield of_command, parameter
        yield from options_below(below, of_command)
