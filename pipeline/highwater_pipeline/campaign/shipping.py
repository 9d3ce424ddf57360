"""The code that workers run: its digest, and a zip of it for workers elsewhere.

Python imports packages from a zip, but opens no data files there. So code on workers must read no
data file. The simulator's known marks are one: the report reads them, in this process.
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
    """Return whether the workers run on this machine and import the same packages as here."""
    return _LOCAL.fullmatch(master) is not None


def digest_of(packages: Sequence[str]) -> str:
    """Return a digest of the code: of the files' names and contents.

    packages: names of packages and modules.

    Raises:
        ModuleNotFoundError: a package or module does not exist.
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
    """Send these packages to the session's workers; they replace packages installed there."""
    spark.addArtifacts(str(zip_of(packages, folder)), pyfile=True)


def _files_of(packages: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the files of packages and modules with their names in the zip, sorted by name."""
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
