"""Takes looks at a simulated cluster, as the observer does at containers, and reports changes."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.report.observation import changes_between
from highwater.report.screen import Screen
from highwater.runs.simulated_evidence import look_at
from highwater_chaos.plan import Step
from highwater_chaos.words import say_fault, say_step
from highwater_checker.looks import Look
from highwater_checker.stories.entries import Note
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.world import World

LOOK_EVERY_NS = 100 * NS_PER_MS


class SimulatedObserver:
    """Takes looks between two events, so that they change no event and delay none."""

    def __init__(self, world: World, steps: Iterable[Step], screen: Screen) -> None:
        self._world = world
        self._faults = {say_step(step): say_fault(step.do) for step in steps}
        self._screen = screen
        self._judge = world.kernel.after_event
        world.kernel.after_event = self._after_event
        self._next_ns = 0
        self._entries_read = 0
        self.looks: list[Look] = []

    def _after_event(self) -> None:
        if self._judge is not None:
            self._judge()
        now_ns = self._world.kernel.now_ns()
        if now_ns >= self._next_ns:
            self._next_ns = now_ns + LOOK_EVERY_NS
            self.take(look_at(self._world))

    def take(self, look: Look) -> None:
        """Keep the look, and report the steps and the changes since the last one."""
        before = self.looks[-1] if self.looks else Look(0, dict.fromkeys(look.nodes))
        self.looks.append(look)
        self.report_steps()
        for change in changes_between(before, look):
            self._screen.say(change.text, time_s=change.time_ns / 1e9)

    def report_steps(self) -> None:
        """Report the entries of the plan and of the oracle since the last call."""
        entries = self._world.trace.entries
        for entry in entries[self._entries_read :]:
            if isinstance(entry.event, Note) and entry.who in ("plan", "oracle"):
                text = self._say(entry.event)
                self._screen.say(text, time_s=entry.at_ns / 1e9, style="bold")
        self._entries_read = len(entries)

    def _say(self, note: Note) -> str:
        text = self._faults.get(note.what, note.what)
        return f"{text} (node {note.detail['on']})" if "on" in note.detail else text
