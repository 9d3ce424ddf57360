"""A failed run's page in a real browser: its script runs without an error, zooms and filters."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from highwater.bugs.kept import bug_of
from highwater.report.page import PAGE
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WITHIN_S = 180
FIRST = """<head><script>
window.wrong = [];
window.addEventListener("error", (event) => window.wrong.push(event.message));
</script>"""
ACTS = """<script>
(function () {
  const told = {};
  let tries = 200;
  const waiting = setInterval(function () {
    const plot = window.Bokeh && Bokeh.documents.length ? Bokeh.documents[0] : null;
    const time = plot && plot.get_model_by_name("time");
    if (!time && --tries > 0) return;
    clearInterval(waiting);
    setTimeout(function () {
      try { act(plot, time); } catch (error) { window.wrong.push(String(error)); }
      const place = document.createElement("pre");
      place.id = "told";
      place.textContent = JSON.stringify({told: told, wrong: window.wrong});
      document.body.append(place);
    }, 1000);
  }, 50);
  function act(plot, time) {
    const lanes = (name) => Array.from(plot.get_model_by_name(name).y_range.factors);
    const click = (selector) => document.querySelector(selector).click();
    told.begun = [time.start, time.end];
    told.labels = Array.from(plot.get_model_by_name("labels of leaders").data.shown);
    told.faults = Array.from(plot.get_model_by_name("labels of nodes").data.label);
    click("button.move[data-at]");
    told.zoomed = [time.start, time.end];
    told.address = location.hash;
    told.single = plot.get_model_by_name("each operation").visible;
    click("fieldset[data-of=node] input[value=broker-0]");
    told.without = lanes("nodes");
    const hidden = [];
    for (const lags of plot.all_models) {
      if (!String(lags.name).startsWith("lags of ")) continue;
      for (const line of lags.renderers) if (line.name && !line.visible) hidden.push(line.name);
    }
    told.hidden = Array.from(new Set(hidden));
    click("fieldset[data-of=node] button[data-check=yes]");
    told.with = lanes("nodes");
    click("button.move[data-by='0'][data-to='0']");
    told.whole = [time.start, time.end];
    time.setv({start: 0, end: 1e-3});
    told.single_in_a_stretch = plot.get_model_by_name("each operation").visible;
  }
})();
</script></body>"""


@pytest.fixture(scope="module")
def browser() -> str:
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    if os.environ.get("HIGHWATER_REQUIRE_DOCKER") == "1":
        pytest.fail(
            f"none of {', '.join(BROWSERS)} is here: scripts/test-tools --full installs one"
        )
    pytest.skip("no browser: scripts/test-tools --full installs one")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A failed run's page, with a script that does what a reader does and tells the result."""
    folder = tmp_path_factory.mktemp("runs") / "lost"
    plan = bug_of("KAFKA-3410").plan()
    run_in_simulator(plan, RunFolder(folder), Screen(Console(quiet=True)))
    path = folder / PAGE
    text = path.read_text()
    assert (text.count("<head>"), text.count("</body>")) == (1, 1)
    path.write_text(text.replace("<head>", FIRST).replace("</body>", ACTS))
    return path


def opened(browser: str, address: str, profile: Path) -> dict[str, Any]:
    """Return what the page's added script told, once it has acted."""
    command = [
        browser,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1400,2000",
    ]
    command += ["--dump-dom", f"--user-data-dir={profile}", "--virtual-time-budget=60000", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2_000:] + done.stdout[-500:]
    told: dict[str, Any] = json.loads(html.unescape(found[1]))
    assert told["wrong"] == [], "errors of the page's own script"
    result: dict[str, Any] = told["told"]
    return result


@pytest.mark.full
def test_the_page_zooms_to_the_finding_and_filters_nodes(
    browser: str, page: Path, tmp_path: Path
) -> None:
    told = opened(browser, page.as_uri(), tmp_path)
    start, end = told["zoomed"]
    assert end - start == pytest.approx(2)
    assert told["address"] == f"#t={start:.3f}-{end:.3f}"
    assert told["whole"] == told["begun"]
    assert "broker-0" in told["with"]
    assert told["without"] == [name for name in told["with"] if name != "broker-0"]
    assert told["hidden"] == ["broker-0"]
    assert told["single_in_a_stretch"] is True
    assert "kill" in " ".join(told["faults"])


@pytest.mark.full
def test_an_address_with_a_stretch_opens_the_page_there(
    browser: str, page: Path, tmp_path: Path
) -> None:
    told = opened(browser, f"{page.as_uri()}#t=0.5-1.5", tmp_path)
    assert told["begun"] == [0.5, 1.5]
    assert told["labels"][0] == "broker 1, epoch 0", "it has room there"
