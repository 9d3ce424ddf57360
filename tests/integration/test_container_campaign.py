"""A campaign on this machine's containers: a planted mistake is found, and its run is fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipeline.command import highwater

pytestmark = [pytest.mark.docker, pytest.mark.full, pytest.mark.timeout(1200)]
WITHIN_S = 900


def test_a_planted_mistake_fails_the_campaign_and_its_run_comes_back(tmp_path: Path) -> None:
    options = ("--seeds", "1", "--first", "9", "--longest", "20s", "--name", "c", "--json")
    mistake = ("--planted", "uncommitted_served_to_consumers")
    done = highwater(
        "campaign", "--world", "docker", *options, *mistake, cwd=tmp_path, within_s=WITHIN_S
    )
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(done.stdout)
    (plan,) = told["plans"]
    assert (told["verdict"], plan["outcome"], plan["invariants"]) == ("fail", "fail", ["I9"])
    folder = tmp_path / "runs" / "campaigns" / "c"
    assert (folder / "runs" / plan["run"] / "verdict.json").is_file()
    assert plan["run"] in (folder / "campaign.html").read_text()
    again = highwater(
        "campaign", "--world", "docker", *options, *mistake, cwd=tmp_path, within_s=WITHIN_S
    )
    assert json.loads(again.stdout) == told
