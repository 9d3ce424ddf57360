"""The Rng port over random.Random: streams keyed by name and by the operating system's entropy."""

from __future__ import annotations

import os
import random


class RandomSource:
    """See highwater_core.ports.Rng."""

    def __init__(self, name: str = "", entropy: bytes | None = None) -> None:
        self._name = name
        self._entropy = os.urandom(16) if entropy is None else entropy
        seed = self._entropy + name.encode()
        self._random = random.Random(seed)  # noqa: S311 (jitter and ids, no secrets)

    def stream(self, name: str) -> RandomSource:
        return RandomSource(f"{self._name}/{name}", self._entropy)

    def randrange(self, start: int, stop: int) -> int:
        return self._random.randrange(start, stop)

    def random(self) -> float:
        return self._random.random()

    def hex_id(self) -> str:
        return f"{self._random.getrandbits(128):032x}"
