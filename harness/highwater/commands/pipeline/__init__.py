"""`highwater pipeline ...`: many runs checked, measured and reported with Spark.

Spark with its dependencies is an extra; a command that needs it loads it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from highwater.commands import add_group
from highwater.errors import HarnessError

STORE = Path("runs") / "tables"
OUT = Path("runs") / "pipeline"
Folders = Annotated[list[Path], typer.Argument(help="Folders of runs, such as runs/latest.")]
Store = Annotated[Path, typer.Option("--store", help="Where the tables are.")]
Master = Annotated[str, typer.Option(help="Where Spark runs: local[N] or spark://host:port.")]


def register(app: typer.Typer) -> None:
    add_group(
        app, "pipeline", "Check, measure and report many runs with Spark.", __name__, __path__
    )


def check_extra() -> None:
    """Make sure that the extra is installed.

    Raises:
        HarnessError: it is not installed.
    """
    missing = [name for name in ("pyspark", "pandas", "pyarrow") if find_spec(name) is None]
    if missing:
        raise HarnessError(
            f"the pipeline needs {', '.join(missing)}: `make setup-pipeline`, or install "
            "the wheel's extra pipeline, or without Java its extra pipeline-local"
        )
