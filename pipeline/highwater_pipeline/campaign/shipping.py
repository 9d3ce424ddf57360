"""The code that workers run: its digest, and a zip of it for workers elsewhere.

Python imports packages from a zip, but opens no data files there: nothing that workers run may
read one (the simulator's known marks are read by the report, which is made here).
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(\[[^\]]*\])?")
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = "__pycache__"


def is_here(master: str) -> bool:
    """Return whether the workers are processes of this machine that import what this one does."""
    return _LOCAL.fullmatch(master) is not None


def digest_of(packages: Sequence[str]) -> str:
    """Return what tells this code from any other: a digest of the files and their names.

    packages: of packages and modules.

    Raises:
        ModuleNotFoundError: one of them is not there.
    """
    digest = hashlib.sha256()
    for name, path in _files_of(packages):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def zip_of(packages: Sequence[str], folder: Path) -> Path:
    """Write the packages as a zip that Python can import from; equal code gives equal bytes."""
    path = folder / f"highwater-{digest_of(packages)[:16]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in _files_of(packages):
            archive.writestr(zipfile.ZipInfo(name, _EARLIEST), file.read_bytes())
    return path


def ship(spark: SparkSession, packages: Sequence[str], folder: Path) -> None:
    """Have the session's workers import the packages as they are here, whatever they have."""
    spark.addArtifacts(str(zip_of(packages, folder)), pyfile=True)


def _files_of(packages: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the packages' and modules' files in the order of their names, as a zip has them."""
    for package in sorted(packages):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"no package {package} to ship")
        if not spec.submodule_search_locations:
            yield f"{package.replace('.', '/')}.py", Path(spec.origin)
            continue
        root = Path(spec.submodule_search_locations[0])
        for path in sorted(root.rglob("*")):
            if path.is_file() and _LEFT_OUT not in path.parts:
                yield f"{package}/{path.relative_to(root).as_posix()}", path
