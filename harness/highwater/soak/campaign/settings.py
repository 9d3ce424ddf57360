"""What a campaign of plans on containers is made of: the plans of a soak, and the code."""

from __future__ import annotations

import msgspec

from highwater.runs.stock.libraries import ClientKind
from highwater.search.campaign_session import RUN_ON
from highwater.soak.draws import SoakSettings
from highwater_chaos.random_kinds import Kind
from highwater_core.config import Preset
from highwater_pipeline.campaign.shipping import digest_of
from highwater_pipeline.campaign.state import Settings

RUNS_A_PLAN = (
    *RUN_ON,
    "highwater_adapters",
    "highwater.cluster",
    "highwater.faults",
    "highwater.runs",
    "highwater.search.shrinking",
    "highwater.soak.draws",
    "highwater.soak.on_machine",
    "highwater.soak.running",
    "highwater.soak.campaign.one_plan",
    "highwater.soak.campaign.settings",
)
"""The packages and modules whose code decides a plan's run. A campaign belongs to one state of
these; every machine must have it."""


class AskedPlan(msgspec.Struct, frozen=True):
    """One plan of a soak.

    code: the digest of the code that must run it. number: from 1. planted: a planted bug's name, ""
    for none.
    """

    code: str
    soak: SoakSettings
    number: int
    planted: str = ""


class PlanSettings(Settings, frozen=True, kw_only=True):
    """The settings on which a campaign's rows depend.

    first_seed: of the soak whose plans are run. seeds: how many of its plans.
    longest_ms, clients, without: as in SoakSettings.
    """

    longest_ms: int
    clients: tuple[str, ...]
    without: tuple[str, ...] = ()

    def soak(self) -> SoakSettings:
        """Return the settings of the soak that has these plans."""
        return SoakSettings(
            seed=self.first_seed,
            longest_ms=self.longest_ms,
            presets=(Preset(self.preset),),
            clients=tuple(map(ClientKind, self.clients)),
            without=tuple(map(Kind, self.without)),
        )


def code_here() -> str:
    """Return the digest of the code that this machine would run a plan by."""
    return digest_of(RUNS_A_PLAN)
