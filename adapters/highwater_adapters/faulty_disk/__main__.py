"""Mounts a broker's faulty disk over its folder, and becomes the broker.

    python -m highwater_adapters.faulty_disk FOLDER -- COMMAND...

It runs as root with SYS_ADMIN, SETUID and SETGID, and gives them up before the command begins: the
command and the process that serves the disk run as the owner of the folder's parent.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from highwater_adapters.faulty_disk.durable import boot_id_of

DEVICE = "/dev/fuse"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LIBC = ctypes.CDLL(None, use_errno=True)
_NOSUID_NODEV, _BIND = 2 | 4, 4096
"""Flags of mount(2)."""


def main(arguments: list[str]) -> None:
    """Mount, and run the command; the process is the command's from then on."""
    folder, dashes, *command = arguments
    if dashes != "--" or not command:
        raise SystemExit("usage: python -m highwater_adapters.faulty_disk FOLDER -- COMMAND...")
    place = Path(folder)
    about = place.parent.stat()
    user, group = about.st_uid, about.st_gid
    _make_folder(place, user, group)
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    _mount("highwater", place, b"fuse", _NOSUID_NODEV, _options(device, user, group))
    if (boot_id := boot_id_of(place)).exists():
        _mount(str(boot_id), BOOT_ID, b"", _BIND, b"")
    if os.fork() == 0:
        _become(user, group)
        _serve(device, place, root)
        os._exit(0)
    os.close(device)
    os.close(root)
    _become(user, group)
    os.statvfs(place)  # returns once the disk is served; ENOTCONN when its process has died
    os.execvp(command[0], command)  # noqa: S606 (the container's own command)


def _make_folder(place: Path, user: int, group: int) -> None:
    """Make the folder as its owner: root has no right to the volume here."""
    os.setegid(group)
    os.seteuid(user)
    place.mkdir(exist_ok=True)
    os.seteuid(0)
    os.setegid(0)


def _options(device: int, user: int, group: int) -> bytes:
    return f"fd={device},rootmode=40000,user_id={user},group_id={group}".encode()


def _mount(source: str, place: Path, kind: bytes, flags: int, options: bytes) -> None:
    if _LIBC.mount(os.fsencode(source), os.fsencode(place), kind, flags, options):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(place))


def _become(user: int, group: int) -> None:
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def _serve(device: int, place: Path, root: int) -> None:
    # Imported here, so that the broker's process does without.
    from highwater_adapters.faulty_disk.served import Server

    Server(device, place, root).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
