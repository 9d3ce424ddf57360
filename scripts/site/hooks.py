"""MkDocs' hooks: the site has the repository's Markdown files at their paths, so that every link
between them works as it does in the repository."""

from __future__ import annotations

import logging
import re
import subprocess
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from scripts.site.pages import INDEX, navigation, outer_addresses

ROOT = Path(__file__).resolve().parents[2]
STYLE = Path(__file__).with_name("site.css")
log = logging.getLogger("mkdocs.hooks.site")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = navigation((ROOT / INDEX).read_text(), _pages())
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Return the pages, and each file that one of them shows or links to."""
    for file in list(files):
        if file.src_dir == config.docs_dir:  # the theme's own files stay
            files.remove(file)
    pages = _pages()
    linked = {path for page in pages for path in _linked_files(page)}
    for path in sorted({*pages, *linked}):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, STYLE.name, abs_src_path=str(STYLE)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Leave the table of contents out beside a diagram or a trace: their lines are long."""
    if page.file.src_uri.startswith("docs/reference/bugs/"):
        page.meta["hide"] = ["toc"]
    return markdown


def on_post_page(output: str, *, page: Any, config: MkDocsConfig) -> str:
    for address in outer_addresses(output):
        log.warning("%s loads %s: the site is to need no network", page.file.src_uri, address)
    return output


def _pages() -> list[str]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    found = done.stdout
    return sorted(path for path in found.splitlines() if (ROOT / path).is_file())


def _linked_files(page: str) -> list[str]:
    """Return the files of other kinds that the page shows or links to; MkDocs tells of the rest."""
    links = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text())
    paths = (normpath(join(dirname(page), link)) for link in links if ":" not in link)
    return [path for path in paths if not path.endswith(".md") and (ROOT / path).is_file()]
