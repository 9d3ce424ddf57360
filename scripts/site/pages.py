"""Which files the site has, and in which order its navigation shows them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TypeAlias

Entry: TypeAlias = "str | dict[str, str] | dict[str, list[Entry]]"
"""A page by its path, with a title or without; or a section with its pages."""

FRONT = "README.md"
INDEX = "docs/README.md"
_MAP, _CHANGES = "ARCHITECTURE.md", "CHANGELOG.md"
_GROUP = re.compile(r"^\| \*\*(.+?)\*\* \|")
_LISTED = re.compile(r"^\| \[[^\]]+\]\(([^)#]+)\) \|")


def navigation(index: str, paths: Sequence[str]) -> list[Entry]:
    """Return the navigation: the groups of the index, then what is kept beside the code.

    index: the text of INDEX.
    paths: every page, relative to the repository.
    """
    groups: dict[str, list[Entry]] = {}
    listed = {FRONT, INDEX}
    for line in index.splitlines():
        if group := _GROUP.match(line):
            groups[group[1]] = []
        elif groups and (page := _LISTED.match(line)):
            path = f"docs/{page[1]}"
            pages = _with_its_folder(path, paths)
            listed.update(pages)
            groups[list(groups)[-1]].append(_section(pages) if len(pages) > 1 else path)
    rest = [path for path in paths if path not in listed and not path.startswith("docs/")]
    code = [path for path in (_MAP, _CHANGES) if path in rest]
    code += [path for path in rest if path not in code]
    return [
        {"Highwater": [FRONT, INDEX]},
        *({group: pages} for group, pages in groups.items()),
        {"The code": [_named(path) for path in code]},
    ]


def _with_its_folder(path: str, paths: Iterable[str]) -> list[str]:
    """Return the page; and where it is the page of a folder of docs, what the folder has."""
    folder = PurePosixPath(path).parent
    if PurePosixPath(path).name != "README.md":
        return [path]
    return [path, *sorted(each for each in paths if each != path and in_folder(each, folder))]


def in_folder(path: str, folder: PurePosixPath) -> bool:
    return folder in PurePosixPath(path).parents


def _section(pages: Sequence[str]) -> Entry:
    """Return a section for a folder, named after it; its own page comes first."""
    folder = PurePosixPath(pages[0]).parent.name
    return {
        folder.capitalize(): [pages[0], *({PurePosixPath(each).stem: each} for each in pages[1:])]
    }


def _named(path: str) -> Entry:
    """Return a folder's page under the folder's name, another one under its own."""
    at = PurePosixPath(path)
    if at.name == "README.md":
        return {f"{at.parent}/": path}
    return {at.as_posix(): path} if at.parent.name else path


def outer_addresses(page: str) -> Iterator[str]:
    """Yield the addresses of what a browser would load from elsewhere to show this page."""
    for tag in re.findall(r"<(?:img|script|iframe|source|link)\b[^>]*>", page):
        if not re.search(r'rel="?(canonical|prev|next)\b', tag):
            yield from re.findall(r'(?:src|href)="?((?:https?:)?//[^"\s>]+)', tag)
