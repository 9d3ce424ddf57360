"""A campaign of plans on containers: rows, runs that are fetched, and the page of a soak."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from highwater.runs.stock.libraries import ClientKind
from highwater.soak.campaign import worker
from highwater.soak.campaign.running import AskedOfContainers, settings_of, take_over
from highwater.soak.campaign.settings import code_here
from highwater.soak.campaign.worker import Order, rows_of
from highwater.soak.draws import SoakSettings, draw
from highwater.soak.folder import SoakFolder
from highwater.soak.ledger import read_entries, verdict_of
from highwater.soak.page import write_page
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset
from highwater_pipeline.campaign.running import Work, frame_of, read_rows, run_groups
from highwater_pipeline.campaign.state import CannotGoOn, Group, GroupReceipt, open_campaign
from highwater_pipeline.campaign.tables import PLANS
from tests.pipeline.command import highwater_without_java
from tests.support.one_plan import DIES, FAILS, RUN

SCRIPT = Path(__file__).parents[1] / "support" / "one_plan.py"
SOAK = SoakSettings(seed=7, longest_ms=10_000)


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other test's plans take this test's places."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def order(kept: Path, **changed: object) -> Order:
    of_all = Order(
        soak=msgspec.to_builtins(SOAK),
        planted="",
        code=code_here(),
        data_version=1,
        at_once=1,
        within_s=600.0,
        kept=str(kept),
        one_plan=(str(SCRIPT),),
    )
    return replace(of_all, **changed)  # type: ignore[arg-type]


def given(first: int, after: int) -> dict[str, object]:
    return {"campaign": "c", "group": 0, "first": first, "after": after}


def test_plans_have_rows_and_those_that_do_not_pass_keep_their_runs(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    rows = list(rows_of(order(kept), given(0, 3)))
    assert [(row["number"], row["outcome"], row["run"]) for row in rows] == [
        (0, "pass", ""),
        (1, "fail", RUN),
        (2, "lost", ""),
    ]
    assert (
        "exit code 1: this goes to the messages\nhighwater: there is no engine"
        in (msgspec.json.decode(rows[2]["entry"])["reasons"][0])
    )
    assert [path.name for path in kept.iterdir()] == [f"{FAILS:05}-{RUN}.tar.gz"]
    assert not list(tmp_path.glob("highwater-plan-*"))

    drawn = [draw(SOAK, number) for number in (1, 2, 3)]
    folder = SoakFolder(tmp_path / "out", of="campaign")
    folder.open(SOAK)
    for _ in range(2):  # the same command again
        entries = take_over(folder, drawn, rows, kept)
    assert read_entries(folder.ledger) == (entries, [])
    assert (folder.runs / RUN / "report.html").read_text() == "the page"
    died = entries[DIES - 1]
    assert (died.outcome, died.seed, died.acknowledged) == (
        Outcome.UNKNOWN,
        drawn[DIES - 1].plan.seed,
        0,
    )
    assert verdict_of(entries) is Outcome.FAIL
    write_page(folder, SOAK, entries)
    page = (tmp_path / "out" / "campaign.html").read_text()
    assert "<h1>Campaign out" in page
    assert f"runs/{RUN}" in page


def test_a_machine_with_another_version_runs_nothing(tmp_path: Path) -> None:
    real = Order.__dataclass_fields__["one_plan"].default
    (row,) = rows_of(order(tmp_path / "kept", code="another", one_plan=real), given(0, 1))
    assert row["outcome"] == "lost"
    assert "another version of Highwater" in row["entry"]


def test_a_plan_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = tmp_path / "sleeps.py"
    sleeps.write_text("import time\ntime.sleep(600)\n")
    (row,) = rows_of(order(tmp_path / "kept", one_plan=(str(sleeps),), within_s=0.5), given(0, 1))
    assert "it did not end within 0.5 s" in row["entry"]


def test_a_machine_has_places_for_so_many_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PLACE_WITHIN_S", 0.1)
    monkeypatch.setattr(worker, "_LOOK_EVERY_S", 0.01)
    with worker._place(2):
        with worker._place(2), pytest.raises(TimeoutError), worker._place(2):
            pass
        with worker._place(2):
            pass


@pytest.fixture
def asked(tmp_path: Path) -> AskedOfContainers:
    return AskedOfContainers(
        seed=7,
        plans=4,
        preset=Preset.FENCED,
        longest_ms=10_000,
        clients=(ClientKind.OWN,),
        without=(),
        planted="",
        name="c",
        store=tmp_path / "store",
        out=tmp_path / "out",
        master="local[1]",
        group_length=2,
        at_once=1,
    )


def test_a_campaign_that_was_killed_runs_the_plans_of_groups_without_a_receipt(
    spark: SparkSession, asked: AskedOfContainers, tmp_path: Path
) -> None:
    own = settings_of(asked)
    assert [group.after for group in own.groups()] == [2, 4]
    work = Work(
        functools.partial(rows_of, order(tmp_path / "kept")), PLANS, 1, tries_lost_again=True
    )

    def killed(receipt: GroupReceipt) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_groups(spark, asked.store, "c", own, work, killed)
    receipts: list[GroupReceipt] = []
    run_groups(spark, asked.store, "c", own, work, receipts.append)
    assert [(each.group, each.schedules, each.failing) for each in receipts] == [(1, 2, 0)]
    assert receipts[0].lost == 1
    run_groups(spark, asked.store, "c", own, work, receipts.append)  # it may be better now
    assert [each.group for each in receipts] == [1, 1]
    rows = sorted(
        read_rows(spark, asked.store, PLANS, "c").collect(), key=lambda row: row["number"]
    )
    assert [row["outcome"] for row in rows] == ["pass", "fail", "lost", "pass"]


def test_a_campaign_of_other_plans_is_not_gone_on_with(asked: AskedOfContainers) -> None:
    with open_campaign(asked.store, "c", settings_of(asked)):
        pass
    other = settings_of(replace(asked, longest_ms=20_000))
    with (
        pytest.raises(CannotGoOn, match="longest_ms 10000, not 20000"),
        open_campaign(asked.store, "c", other),
    ):
        pass


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--world", "docker", "--family", "disks"), "--family is of --world sim"),
        (("--longest", "10s"), "--longest is of --world docker"),
        (("--world", "docker", "--planted", "no_such"), "there is no planted bug 'no_such'"),
        (("--world", "docker", "--seeds", "1", "--name", "a/b"), "no campaign's name"),
    ],
)
def test_what_cannot_be_is_told(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = highwater_without_java("campaign", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_each_plan_has_a_task_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """Found: chance put both plans of a group on one machine, and the other had nothing to do."""
    work = Work(functools.partial(rows_of, order(tmp_path / "kept")), PLANS, 1)
    frame = frame_of(spark, "c", Group(0, 0, 6), work)
    places = frame.withColumn("place", fn.spark_partition_id()).select("place").collect()
    assert len({row["place"] for row in places}) == 6
