"""Python in the documentation: it is Python, and what it imports is there."""

from __future__ import annotations

import ast
import importlib

import pytest

from tests.support.docs_blocks import Block, python_blocks

BLOCKS = list(python_blocks())


def test_the_first_page_and_the_kits_have_some() -> None:
    pages = {block.page for block in BLOCKS if block.is_whole_test}
    assert {"README.md", "docs/how-to/pytest.md"} <= pages


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_imports_what_is_there(block: Block) -> None:
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []
        elif isinstance(node, ast.Import):
            for name in node.names:
                importlib.import_module(name.name)
