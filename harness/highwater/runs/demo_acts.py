"""The demo's acts, the same in both worlds: what is killed, and what must come of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from highwater.faults.intents import IntentLog
from highwater.report.observation import Change, active_controller
from highwater.report.picture import Fault
from highwater.report.screen import Screen, cluster_table
from highwater.run_folder import RunFolder
from highwater.runs.workload import Progress
from highwater.waiting import NeverHappened
from highwater_chaos.faults import Kill
from highwater_checker.looks import Look, leaderships, replicas_of
from highwater_checker.run_folder import names
from highwater_checker.verdict import Requirement
from highwater_core.config import Preset
from highwater_core.ids import FIRST_CONTROLLER_ID, TopicPartition

BROKERS, CONTROLLERS = 3, 2
TOPIC = "demo"
KILLED_PARTITION = TopicPartition(TOPIC, 0)


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """How the demo runs; steady_s is the time of undisturbed writing between its acts."""

    runs_root: Path
    preset: Preset = Preset.FENCED
    session_timeout_ms: int = 2000
    partition_count: int = 3
    records_per_second: int = 1000
    steady_s: float = 3.0

    @property
    def recovery_s(self) -> float:
        """The bound on every wait for a new leader or controller."""
        return self.session_timeout_ms / 1000 + 15.0


@dataclass(slots=True)
class Timeline:
    """What was done when, and what must have come of it."""

    faults: list[Fault] = field(default_factory=list)
    windows: list[tuple[int, int]] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)


class DemoActs(ABC):
    """A demo that is played, with what it leaves for the verdict; each world says how."""

    seconds = "s"
    """What a second is called on the screen."""

    def __init__(self, settings: DemoSettings, screen: Screen, folder: RunFolder) -> None:
        self._settings = settings
        self._screen = screen
        self._intents = IntentLog(folder.path / names.INTENTS, self._now_ns)
        self._kills: dict[int, int] = {}
        """By node: the number of its kill in the log of intents."""
        self.timeline = Timeline()
        self.looks: list[Look] = []
        self.final_look = Look(0, {})

    # ------------------------------------------------------------ what each world says

    @property
    @abstractmethod
    def progress(self) -> Progress:
        """What the producer has come to so far."""

    @abstractmethod
    def _begin(self) -> None:
        """Have the topic created, and look from now on."""

    @abstractmethod
    def _start_writing(self) -> None: ...

    @abstractmethod
    def _stop_writing(self) -> None:
        """Stop the producer; every record then has its outcome, and the history is whole."""

    @abstractmethod
    def _stop_at_once(self) -> None:
        """Have the producer write nothing more, whatever became of it; the history is whole."""

    @abstractmethod
    def _end(self) -> None:
        """Take the final look."""

    @abstractmethod
    def _kill_node(self, node_id: int) -> str:
        """Kill the node, require the proof of it, and return that."""

    @abstractmethod
    def _start_node(self, node_id: int) -> None: ...

    @abstractmethod
    def _look(self) -> Look:
        """Return the newest look."""

    @abstractmethod
    def _look_now(self) -> Look:
        """Return a look that begins now."""

    @abstractmethod
    def _now_ns(self) -> int: ...

    @abstractmethod
    def _go_on(self) -> None:
        """Let the workload run undisturbed for a while; nothing is awaited here."""

    @abstractmethod
    def _await(self, what: str, predicate: Callable[[], bool]) -> None:
        """Return once the predicate holds.

        Raises:
            NeverHappened: it does not, in time.
        """

    # ------------------------------------------------------------ acts

    def play(self) -> None:
        """Create the topic, write, kill the leader, kill the controller, heal, settle."""
        self._begin()
        self._await("a leader of every partition", self._every_partition_is_full)
        self._start_writing()
        self._go_on()
        leader = self._kill_leader()
        self._go_on()
        controller = self._kill_controller()
        self._go_on()
        for node_id in (leader, controller):
            self._start_again(node_id)
        self._await("a full ISR", self._every_partition_is_full)
        self._go_on()
        self._stop_writing()
        counts = self.progress
        self._screen.say(
            f"the producer has ended: {counts.acknowledged} acknowledged, "
            f"{counts.failed} failed, {counts.unknown} unknown"
        )
        self._await("HW = LEO on every replica", self._everything_is_replicated)
        self._end()

    def close(self) -> None:
        """Nothing more is done to the cluster."""
        self._intents.close()

    def give_up(self, error: Exception) -> None:
        """End early; what was recorded until now is still judged, and never as a pass."""
        self._screen.say(str(error), time_s=self._now_ns() / 1e9, style="bold yellow")
        self._require("the demo ran to its end", False, str(error))
        self._stop_at_once()
        self._end()

    def _kill_leader(self) -> int:
        before = leaderships(self._look())[KILLED_PARTITION]
        start_ns = self._now_ns()
        self._kill(before.leader, f"SIGKILL broker {before.leader}")
        acknowledged = self.progress.acknowledged

        def took_over() -> bool:
            now = leaderships(self._look()).get(KILLED_PARTITION)
            return now is not None and now.leader_epoch > before.leader_epoch

        self._await("a new leader", took_over)
        self._await("new acknowledgements", lambda: self.progress.acknowledged > acknowledged + 100)
        self.timeline.windows.append((start_ns, self._now_ns()))
        after = leaderships(self._look())[KILLED_PARTITION]
        self._require(
            "another broker led after the kill",
            after.leader != before.leader,
            f"{before.leader} at leader_epoch {before.leader_epoch}, then {after.leader} at "
            f"{after.leader_epoch}",
        )
        return before.leader

    def _kill_controller(self) -> int:
        before = active_controller(self._look())
        if before is None:
            raise NeverHappened("no controller is active, so none can be killed")
        self._kill(before.node_id, f"SIGKILL controller {before.node_id}, the active one")

        def took_over() -> bool:
            now = active_controller(self._look())
            return now is not None and now.controller_epoch > before.controller_epoch

        self._await("a new active controller", took_over)
        after = active_controller(self._look())
        self._require(
            "another controller was active after the kill",
            after is not None and after.node_id != before.node_id,
            f"{before.node_id} at controller_epoch {before.controller_epoch}, then "
            f"{after.node_id if after else 'nobody'}",
        )
        return before.node_id

    def _kill(self, node_id: int, text: str) -> None:
        self._say_deed(text)
        kind = "controller" if node_id >= FIRST_CONTROLLER_ID else "broker"
        number = self._intents.begin(Kill(f"{kind}-{node_id}"))
        proof = self._kill_node(node_id)
        self._intents.write(number, "acting", node=node_id, proof=proof)
        self._kills[node_id] = number

    def _start_again(self, node_id: int) -> None:
        self._say_deed(f"start node {node_id} again")
        number = self._kills.pop(node_id)
        self._intents.write(number, "reverting")
        self._start_node(node_id)
        self._intents.write(number, "reverted")

    def _say_deed(self, text: str) -> None:
        now_s = self._now_ns() / 1e9
        self.timeline.faults.append(Fault(now_s, text))
        self._screen.say(text, time_s=now_s, style="bold red" if "SIGKILL" in text else "bold")

    def _require(self, name: str, met: bool, evidence: str) -> None:
        self.timeline.requirements.append(Requirement(name, met, evidence))

    # ------------------------------------------------------------ what is seen

    def _every_partition_is_full(self) -> bool:
        found = leaderships(self._look())
        return len(found) == self._settings.partition_count and all(
            len(leadership.isr) == BROKERS for leadership in found.values()
        )

    def _everything_is_replicated(self) -> bool:
        look = self._look_now()
        for topic_partition, leadership in leaderships(look).items():
            replicas = replicas_of(look, topic_partition).values()
            ends = {(replica.high_watermark, replica.log_end_offset) for replica in replicas}
            if len(replicas) != BROKERS or ends != {(leadership.log_end_offset,) * 2}:
                return False
        return True

    def _on_look(self, look: Look, changes: list[Change]) -> None:
        """Tell what has changed, and show the cluster."""
        for change in changes:
            self._screen.say(change.text, time_s=change.time_ns / 1e9)
        counts = self.progress
        silence_s = max(0, look.time_ns - counts.last_acknowledged_ns) / 1e9
        footer = (
            f"{counts.sent} sent, {counts.acknowledged} acknowledged, "
            f"last acknowledgement {silence_s:.2f} {self.seconds} ago",
        )
        self._screen.show_live(cluster_table(look, footer))
