"""The project's plans: each file in plans/ is a test, in virtual time, without containers."""

import pytest


@pytest.mark.highwater_plan("plans/*.json", world="sim")
def test_plan(highwater_run):
    assert all(gap.length_s < 10 for gap in highwater_run.gaps)
