"""A folder of a disk used like a disk of its own: no operation leaves the folder."""

from __future__ import annotations

from highwater_broker.log.subfolder import Subfolder

from .conftest import Machine


def test_all_that_is_done_in_a_folder_stays_in_it(machine: Machine) -> None:
    whole = machine.files
    whole.make_folder("other")
    inner = Subfolder(whole, "d0")
    assert inner.list("") == []
    inner.make_folder("t-0")
    file = inner.open("t-0/log")
    file.append([b"abc"])
    file.close()
    inner.rename("t-0", "t-1")
    assert (inner.exists("t-1/log"), inner.exists("t-0"), inner.exists("")) == (True, False, True)
    assert (whole.list(""), whole.list("d0")) == (["d0", "other"], ["t-1"])
    assert inner.list("") == ["t-1"]
    inner.remove("t-1")
    assert (inner.list(""), whole.list("")) == ([], ["d0", "other"])


def test_files_synced_in_a_folder_survive_a_power_loss(machine: Machine) -> None:
    inner = Subfolder(machine.files, "d0")
    inner.make_folder("")
    machine.run(machine.files.sync_folder(""))
    for name in ("one", "two"):
        inner.open(name).append([b"abc"])
    machine.run(inner.sync_many(["one"], [""]))
    file = inner.open("two")
    machine.run(file.sync())
    machine.run(inner.sync_folder(""))
    machine.lose_power()
    after = Subfolder(machine.files, "d0")
    assert after.list("") == ["one", "two"]
    assert [after.open(name).size_bytes for name in ("one", "two")] == [3, 3]
