"""The words of a command line that are typed already, also where a shell asks to complete it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

COMPLETE_VARIABLE = "_HIGHWATER_COMPLETE"
"""Set by a shell that asks what may come next; the variables below then have its line."""
_BASH_WORDS, _BASH_AT = "COMP_WORDS", "COMP_CWORD"
_LINE = "_TYPER_COMPLETE_ARGS"


def typed_words(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the words behind the program's name, without one that is still being typed.

    arguments: the process's own, with the program's name.
    """
    if not environment.get(COMPLETE_VARIABLE):
        return list(arguments[1:])
    if _BASH_WORDS in environment:
        at = environment.get(_BASH_AT, "")
        words = environment[_BASH_WORDS].split()
        return words[1 : int(at)] if at.isdecimal() else []
    line = environment.get(_LINE, "")
    words = line.split()
    return words[1:] if line[-1:].isspace() else words[1:-1]
