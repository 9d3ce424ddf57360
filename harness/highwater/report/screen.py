"""Shows a run as it happens: lines and, on a terminal, a table that refreshes.

Everything goes to stderr, so that stdout is free for output that machines read.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from highwater.report.observation import active_controller, has_controllers
from highwater_checker.looks import Look, leaderships, replicas_of


class Screen:
    """A console with an optional live part at its foot; use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end_live()

    def say(self, text: str, *, time_s: float | None = None, style: str = "") -> None:
        """Print a line, with the run's time where there is one."""
        stamp = f"[{time_s:7.2f} s] " if time_s is not None else ""
        self.console.print(Text(stamp, style="dim") + Text(text, style=style), soft_wrap=True)

    def show_live(self, content: RenderableType) -> None:
        """Replace the live part; it is shown on a terminal alone."""
        if not self.console.is_terminal:
            return
        if self._live is None:
            self._live = Live(console=self.console, refresh_per_second=8, transient=True)
            self._live.start()
        self._live.update(content)

    def end_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def cluster_table(look: Look, footer: Sequence[str] = ()) -> RenderableType:
    """Return one row a partition: leader, leader_epoch, ISR and each replica's HW and LEO."""
    controller = active_controller(look)
    active = "no active controller" if has_controllers(look) else "brokers elect leaders themselves"
    if controller is not None:
        active = (
            f"active controller {controller.node_id}, "
            f"controller_epoch {controller.controller_epoch}"
        )
    gone = [str(node_id) for node_id in sorted(look.nodes) if look.nodes[node_id] is None]
    table = Table(
        title=f"{active}; not answering: {', '.join(gone) or 'none'}", title_justify="left"
    )
    for name in ("partition", "leader", "leader_epoch", "ISR", "replica: HW / LEO"):
        table.add_column(name)
    for topic_partition, leadership in leaderships(look).items():
        replicas = replicas_of(look, topic_partition)
        table.add_row(
            str(topic_partition),
            str(leadership.leader),
            str(leadership.leader_epoch),
            ", ".join(str(broker) for broker in leadership.isr),
            "   ".join(
                f"{broker_id}: {replica.high_watermark} / {replica.log_end_offset}"
                for broker_id, replica in replicas.items()
            ),
        )
    return Group(table, *(Text(line) for line in footer))
