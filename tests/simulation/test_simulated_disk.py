"""The durable part of a disk, beyond the file system's contract; random streams."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater_simulator.disk import Disk
from highwater_simulator.disk_tree import FileNode, FolderNode
from highwater_simulator.files import SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.rng import SeededRng

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(min_size=1, max_size=6)),
        st.tuples(st.just("truncate"), st.integers(0, 30)),
        st.tuples(st.just("sync"), st.just(0)),
    ),
    max_size=30,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_durable_content_is_the_content_at_the_last_sync(steps: list[tuple[str, object]]) -> None:
    node, durable = FileNode(), b""
    for kind, argument in steps:
        if isinstance(argument, bytes):
            node.content += argument
        elif kind == "truncate":
            assert isinstance(argument, int)
            node.truncate(min(argument, len(node.content)))
        else:
            node.mark_synced(len(node.content))
            durable = bytes(node.content)
        assert node.durable() == durable


def test_sync_covers_bytes_there_at_its_begin_and_not_truncated_since() -> None:
    kernel, disk = Kernel(), Disk(SeededRng(1))
    runtime = kernel.runtime("node")
    file = SimulatedFileSystem(runtime, disk).open("log")
    file.append([b"abcdef"])
    runtime.start("sync", file.sync())
    kernel.run_for(0)
    file.truncate(4)
    file.append([b"XYZ"])
    kernel.run_for(100)
    node = disk.find("log")
    assert isinstance(node, FileNode)
    assert node.durable() == b"abcd"
    assert disk.files() == {"log": b"abcdXYZ"}


def test_names_are_durable_once_their_folder_is_synced() -> None:
    kernel, disk = Kernel(), Disk(SeededRng(1))
    runtime = kernel.runtime("node")
    files = SimulatedFileSystem(runtime, disk)
    files.make_folder("t-0")
    files.open("t-0/tmp")
    runtime.start("sync", files.sync_folder("t-0"))
    kernel.run_for(100)
    files.rename("t-0/tmp", "t-0/checkpoint")
    folder = disk.find("t-0")
    assert isinstance(folder, FolderNode)
    assert list(folder.entries) == ["checkpoint"]
    assert list(folder.durable_entries) == ["tmp"]
    assert disk.root.durable_entries == {}


def test_two_syncs_of_a_folder_at_once_make_the_names_durable_that_each_saw() -> None:
    kernel, disk = Kernel(), Disk(SeededRng(3))
    runtime = kernel.runtime("node")
    files = SimulatedFileSystem(runtime, disk)
    for name in ("a", "b", "c"):
        files.open(name)
        runtime.start("sync", files.sync_folder(""))
        kernel.run_for(0)
    files.open("d")
    kernel.run_for(100)
    assert list(disk.root.durable_entries) == ["a", "b", "c"]
    assert disk.root.change_count == 4


def test_dead_incarnation_changes_nothing_and_the_next_finds_its_writes() -> None:
    kernel, disk = Kernel(), Disk(SeededRng(1))
    first = kernel.runtime("node")
    old = SimulatedFileSystem(first, disk)
    file = old.open("log")
    file.append([b"abc"])
    first.kill()
    file.append([b"never"])
    file.truncate(0)
    old.open("never")
    old.remove("log")
    old.make_folder("never")
    new = SimulatedFileSystem(kernel.runtime("node"), disk)
    assert new.list("") == ["log"]
    assert new.open("log").pread(0, 100) == b"abc"


def test_tap_hears_of_every_change_once_it_is_there_and_of_no_sync() -> None:
    kernel, disk = Kernel(), Disk(SeededRng(1))
    runtime = kernel.runtime("node")
    files = SimulatedFileSystem(runtime, disk)
    heard: list[tuple[str, str, bytes | None]] = []

    def changed(path: str, operation: str) -> None:
        content = disk.content(path)
        heard.append((path, operation, None if content is None else bytes(content)))

    disk.changed = changed
    files.make_folder("t-0")
    file = files.open("t-0/log")
    file.append([b"abc"])
    file.truncate(1)
    runtime.start("sync", file.sync())
    runtime.start("sync", files.sync_folder("t-0"))
    kernel.run_for(100)
    files.rename("t-0/log", "t-0/old")
    files.rename("t-0", "t-0-stray")
    files.remove("t-0-stray")
    runtime.kill()
    file.append([b"never"])
    assert heard == [
        ("t-0/log", "name", b""),
        ("t-0/log", "append", b"abc"),
        ("t-0/log", "truncate", b"a"),
        ("t-0/log", "name", None),
        ("t-0/old", "name", b"a"),
        ("t-0", "name", None),
        ("t-0-stray", "name", None),
        ("t-0-stray/old", "name", None),
        ("t-0-stray", "name", None),
    ]


def test_content_is_read_in_parts_without_a_copy_of_the_whole() -> None:
    disk = Disk(SeededRng(1))
    files = SimulatedFileSystem(Kernel().runtime("node"), disk)
    files.make_folder("t-0/deep")
    file = files.open("t-0/b.log")
    files.open("t-0/a.log")
    file.append([b"abc"])
    content = disk.content("t-0/b.log")
    file.append([b"def"])
    assert disk.content("t-0/b.log") is content
    assert disk.read("t-0/b.log", 2, 3) == b"cde"
    assert disk.read("missing", 0, 3) == b""
    assert disk.content("t-0") is None
    assert disk.paths("t-0") == ["t-0/a.log", "t-0/b.log"]
    assert disk.paths("missing") == []


def test_streams_draw_by_name_unmoved_by_each_other() -> None:
    plain, disturbed = SeededRng(7), SeededRng(7)
    for _ in range(5):
        disturbed.stream("other").random()
    assert plain.stream("a").hex_id() == disturbed.stream("a").hex_id()
    assert plain.stream("a").hex_id() != SeededRng(8).stream("a").hex_id()
    assert plain.stream("a").stream("b").random() != plain.stream("a/c").random()
