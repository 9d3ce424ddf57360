"""The commands as `highwater --help` lists them, so that it needs no command's imports."""

from __future__ import annotations

LISTED = {
    "See it": {
        "demo": "Kill the leader and the active controller under load, and prove that no record "
        "was lost.",
        "bugs": "Historical failover bugs: list them, and run the plan that shows one.",
    },
    "A cluster": {
        "up": "Bring up a cluster and leave it running.",
        "status": "Show the cluster: nodes, roles, partitions.",
        "topics": "List, describe, create, expand and delete topics.",
        "configs": "Show and change configurations while the cluster runs.",
        "reassign": "Move a partition's replicas to other brokers, and wait until the move is "
        "over.",
        "elect": "Elect leaders of the named partitions, or of all.",
        "logs": "Print a node's log, all its incarnations, oldest first; most nodes write little "
        "or none.",
        "metrics": "Print every node's metrics as Prometheus text, or serve them to be scraped.",
        "images": "The images that clusters run.",
        "down": "Remove a cluster: containers, volumes, network.",
    },
    "Its faults": {
        "faults": "List the faults that this machine can do to a cluster; each means is tried "
        "first.",
        "kill": "Kill a node with SIGKILL; it stays down until `highwater start` or `highwater "
        "heal`.",
        "pause": "Freeze a node's processes, until `highwater start` or `highwater heal`.",
        "cut": "Cut a node's links while the command runs, and undo it at its end or at Ctrl-C.",
        "shutdown-broker": "Stop a broker once others lead its partitions; show the new leaders.",
        "upgrade": "Stop a node, start it from another image on its old disk, and prove that it "
        "runs it.",
        "stop-controller": "Stop the active controller, and wait until another one is active.",
        "start": "Start a node that is down, or thaw a frozen one, and wait until it answers.",
        "heal": "Undo faults: pauses, cuts, lost networks, helpers; start stopped nodes.",
    },
    "Plans": {
        "chaos": "Plans drawn and checked; single faults on a cluster that is up, and their way "
        "back.",
        "run": "Run a plan in virtual time or on containers: break a cluster under load, heal it, "
        "judge it.",
        "soak": "Run plans drawn from a seed on containers until the time is over, and judge each.",
        "watch": "Show leaders, ISRs, offsets and faults of what runs now, from its files alone.",
        "sim": "Search, replay and shrink fault schedules of the same node code in virtual time.",
        "campaign": "Run schedules on Spark, store a row of each, shrink failing ones, and report.",
    },
    "Finished runs": {
        "runs": "The folders of runs: list them with their verdicts, and remove old ones.",
        "judge": "Judge finished runs again, from their files alone; the folders are not changed.",
        "explain": "Tell how a run failed: its first finding as a story, with the lines of "
        "evidence.",
        "report": "Write the page, picture and JUnit file of finished runs anew, from their files "
        "alone.",
        "reproduce": "Run the plan of a finished run again, with the same clients, and say what "
        "came of it.",
        "segments": "The segment files of brokers and finished runs: print them, and compare "
        "replicas.",
        "pipeline": "Check, measure and report many runs with Spark.",
    },
    "Your project": {
        "init": "Write files that a project begins from.",
    },
}
"""The first sentence of each command's own help, by purpose and name, in the order of a reader."""
