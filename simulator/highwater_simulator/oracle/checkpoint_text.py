"""Kafka's checkpoint files, read without node code: version, count, rows, checksum."""

from __future__ import annotations

from crc32c import crc32c


def read_rows(content: bytes) -> list[list[str]] | None:
    """Return the rows of a whole checkpoint, None of a broken one.

    A row's last columns are numbers: one in an epoch file, two in a checkpoint of offsets. The
    last row is a checksum of the others.
    """
    version, _, rest = content.decode("utf-8", "replace").partition("\n")
    count, *lines = rest.removesuffix("\n").split("\n")
    if version != "0" or count != str(len(lines)) or not lines:
        return None
    *rows, last = lines
    checksum = crc32c("\n".join(rows).encode())
    columns = last.count(" ")
    if last not in (f"#crc32c 0 {checksum}", f"#crc32c {checksum}"):
        return None
    return [row.rsplit(" ", columns) for row in rows]
